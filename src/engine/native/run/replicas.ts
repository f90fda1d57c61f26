/** Hashes of what ranks hold from step to step, compared over those that hold the same part. */
import { coordinatesOf, flatAxes, type Layout, partialAxes, type Rank, type StateName } from '../../../base/index.js'
import { type Kept, parameterOf, stateOf } from '../../../geometry/index.js'
import type { Param, Program } from '../../../ir/index.js'
import { type Disagreement, oddOnes } from '../../replicas.js'
import type { Elements } from '../kernels/dtypes.js'
import { nanBitsOf } from '../kernels/finite.js'

type PartsOf = (param: Param, kept: Kept) => readonly { readonly rank: Rank; readonly elements: Elements }[]

export function disagreementsIn(program: Program, partsOf: PartsOf): Disagreement[] {
  return program.params.flatMap(param => {
    const states = Object.keys(Object.values(param.frames)[0].states) as StateName[] // its own keys
    return [undefined, ...states].flatMap(state => {
      const kept = state === undefined ? parameterOf(param) : stateOf(param, state)
      return unlike(program, kept, partsOf(param, kept)).map(holders => {
        const odd = oddOnes(holders)
        return { parameter: param.name, ...(state !== undefined && { state }), holders, ...(odd && { odd }) }
      })
    })
  })
}

/** Of each part whose copies differ, all of them. */
function unlike({ mesh }: Program, { holding, dtype }: Kept, parts: ReturnType<PartsOf>): Disagreement['holders'][] {
  const axes = axesOf(holding.layout)
  const groups = new Map<string, (typeof parts)[number][]>()
  for (const part of parts) {
    const at = coordinatesOf(mesh, part.rank)
    const key = axes.map(axis => at[axis] ?? 0).join(' ')
    groups.set(key, [...(groups.get(key) ?? []), part])
  }
  return [...groups.values()].flatMap(group => {
    if (group.length < 2) return []
    const hashed = (of: (elements: Elements) => ArrayBufferView) =>
      group.map(({ rank, elements }) => ({ rank, hash: hashOf(of(elements)) }))
    if (areAlike(hashed(elements => elements))) return []
    const holders = hashed(elements => withOneNaN(dtype, elements))
    return areAlike(holders) ? [] : [holders]
  })
}

const areAlike = (holders: Disagreement['holders']): boolean => holders.every(({ hash }) => hash === holders[0].hash)

/** Where all NaNs have the same bits: a copy. */
function withOneNaN(dtype: Kept['dtype'], elements: Elements): ArrayBufferView {
  const { size, infinity } = nanBitsOf(dtype)
  if (infinity > size) return elements
  const { buffer, byteOffset, length, BYTES_PER_ELEMENT } = elements
  const bits =
    BYTES_PER_ELEMENT === 4 ? new Uint32Array(buffer, byteOffset, length) : new Uint16Array(buffer, byteOffset, length)
  return bits.map(one => ((one & size) > infinity ? size : one))
}

/** Ranks that differ along other axes than these hold the same. */
const axesOf = (layout: Layout) => [
  ...new Set([...Object.values(layout.splits).flat(), ...flatAxes(layout), ...partialAxes(layout)]),
]

/**
 * 64 bits, in two halves. Each step of a half is one to one, so one other bit always gives another hash; two that would cancel out in
 * a sum or an xor do not here.
 */
export function hashOf({ buffer, byteOffset, byteLength }: ArrayBufferView): string {
  const whole = byteLength % 4 === 0 && byteOffset % 4 === 0
  const bits = whole
    ? new Uint32Array(buffer, byteOffset, byteLength / 4)
    : new Uint8Array(buffer, byteOffset, byteLength)
  let [one, two] = [0x811c9dc5, 0x2545f491]
  for (let i = 0; i < bits.length; i++) {
    one = Math.imul(one ^ bits[i], 0x9e3779b1)
    one = (one << 15) | (one >>> 17)
    two = Math.imul(two + bits[i], 0x85ebca6b)
    two ^= two >>> 13
  }
  return [one, two].map(half => (half >>> 0).toString(16).padStart(8, '0')).join('')
}
