/** What other systems answer to the same question: files made by their own generators (test/fixtures/README.md). */
import { deepEqual, equal } from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { elementsOf } from '../src/base/index.js'
import type { Tensor } from './tiny.js'

const root = process.env.LOCKSTEP_FIXTURES ?? 'test/fixtures'

/** Of the repository's own set it is known what it has; of others only what form they have. */
export const isOwnSet = process.env.LOCKSTEP_FIXTURES === undefined

/** The path of a file or a folder, of which the set must have one. */
export function fixturePath(path: string): string {
  if (!existsSync(root)) throw new Error(`there is no folder ${root}, which LOCKSTEP_FIXTURES names`)
  if (!existsSync(`${root}/${path}`)) throw new Error(`the fixtures in ${root} have no ${path}`)
  return `${root}/${path}`
}

export const hasFixture = (path: string): boolean => existsSync(`${root}/${path}`)

/** One of this repository, whatever set is tested: where a test is about one model. */
export const ownFixture = (path: string): string => `test/fixtures/${path}`

export const readFixture = (path: string): string => readFileSync(fixturePath(path), 'utf8')

export const fixtureNames = (folder: string, pattern: RegExp): string[] =>
  namesIn(folder, name => pattern.test(name), pattern.source)

/** Folders of a folder, one for each case. */
export const fixtureFolders = (folder: string): string[] =>
  namesIn(folder, name => existsSync(`${root}/${folder}/${name}/expected.json`), '*/expected.json')

function namesIn(folder: string, holds: (name: string) => boolean, pattern: string): string[] {
  const names = readdirSync(fixturePath(folder)).filter(holds)
  if (names.length === 0) throw new Error(`the fixtures in ${root}/${folder} have no ${pattern}`)
  return names.sort()
}

/** A tensor as fixtures write it: sizes by name, values row-major. */
export interface FixtureTensor {
  readonly dims: readonly (readonly [name: string, size: number])[]
  readonly data: readonly number[]
}

/** The tensor, which must have the named dims. */
export function tensorOf({ dims, data }: FixtureTensor, names: string): Tensor {
  const named = dims.map(([name, size]) => ({ name, size }))
  equal(named.map(({ name }) => name).join(' '), names)
  equal(data.length, elementsOf(named), names)
  return { dims: named, values: data }
}

/** The causal attention of a fixture, with its gradients. */
export function readAttention(name: string): { window: number | null; tensors: Record<AttentionTensor, Tensor> } {
  const { window, ...given } = JSON.parse(readFixture(`cp/${name}`))
  const entries = Object.entries(attentionDims).map(([of, dims]) => [of, tensorOf(given[of], dims)])
  return { window, tensors: Object.fromEntries(entries) }
}

const [queries, keys] = ['batch seq kvHeads group headDim', 'batch seq kvHeads headDim']
const attentionDims = {
  ...{ q: queries, k: keys, v: keys, dout: queries, out: queries, lse: 'batch seq kvHeads group' },
  ...{ dq: queries, dk: keys, dv: keys },
}
type AttentionTensor = keyof typeof attentionDims

/** The values agree to a bound, relative to what is expected where that is larger than one. */
export function close(actual: ArrayLike<number>, expected: ArrayLike<number>, what: string, bound = 1e-12): void {
  equal(actual.length, expected.length, what)
  for (const [i, value] of Array.from(expected).entries())
    if (!(Math.abs(actual[i] - value) <= bound * Math.max(1, Math.abs(value))))
      deepEqual({ [`${what}[${i}]`]: actual[i] }, { [`${what}[${i}]`]: value })
}
