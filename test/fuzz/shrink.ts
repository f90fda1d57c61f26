/**
 * A failing job made smaller while it still fails, after "delta debugging" (Zeller and Hildebrandt 2002): many fields are left out
 * at a time, then fewer, down to one; then numbers become smaller.
 */
import type { JobInput } from '../../src/plan/index.js'
import { families, plainOptimizer } from './features.js'

type Path = readonly string[]

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Every field, the fields within it after it. */
const pathsIn = (value: unknown, path: Path = []): Path[] =>
  isRecord(value)
    ? Object.entries(value).flatMap(([key, inner]) => [[...path, key], ...pathsIn(inner, [...path, key])])
    : []

function without(value: unknown, [key, ...rest]: Path): unknown {
  if (!isRecord(value) || !(key in value)) return value
  const { [key]: inner, ...others } = value
  return rest.length === 0 ? others : { ...value, [key]: without(inner, rest) }
}

const at = (value: unknown, path: Path): unknown =>
  path.reduce((inner, key) => (isRecord(inner) ? inner[key] : undefined), value)

const replaced = (value: unknown, [key, ...rest]: Path, by: unknown): unknown =>
  key === undefined ? by : { ...(value as object), [key]: replaced((value as Record<string, unknown>)[key], rest, by) }

/** Norms over fewer numbers leave gradients that are nothing but rounding. */
const narrowest = 4

/** The least first. */
function smaller(value: unknown, path: Path): number[] {
  const size = Number.isInteger(value) ? (value as number) : 0
  const least = path[0] === 'model' && path[1] !== 'layers' ? Math.min(narrowest, size) : 1
  return [1, 2, narrowest, Math.floor(size / 2), size - 1].filter(n => n >= least && n < size)
}

/** Left out, they would be a default that divides rounding by next to nothing. */
const stays = (path: Path): boolean => path.at(-1) === 'eps' || path.join('.') === 'training.optimizer'

/** The plain model of each family in place of this one, and the plain optimizer. */
const plainer = (input: JobInput): JobInput[] => [
  ...Object.values(families)
    .filter(model => Object.keys(model).length < Object.keys(input.model).length)
    .map(model => ({ ...input, model })),
  { ...input, training: { ...input.training, optimizer: plainOptimizer } },
]

/** What is left of the job when the fields of `group` are gone. */
const withoutAll = (input: JobInput, group: readonly Path[]): JobInput =>
  group.reduce<unknown>(without, input) as JobInput // what the schema refuses does not fail as the job did

/** The smallest job that is found to fail while `mayGoOn`. */
export async function shrunk(
  input: JobInput,
  fails: (input: JobInput) => Promise<boolean>,
  mayGoOn: () => boolean,
): Promise<JobInput> {
  let found = input
  const seen = new Set<string>()
  /** Whether it became the new job. */
  const takes = async (candidate: JobInput): Promise<boolean> => {
    const text = JSON.stringify(candidate)
    if (text === JSON.stringify(found) || seen.has(text) || !mayGoOn()) return false
    seen.add(text)
    if (!(await fails(candidate))) return false
    found = candidate
    return true
  }
  const leaveOut = async (atOnce: number) => {
    const paths = pathsIn(found).filter(path => !stays(path))
    for (let i = 0; i < paths.length; i += atOnce) await takes(withoutAll(found, paths.slice(i, i + atOnce)))
  }
  for (let before: JobInput | undefined; before !== found; ) {
    before = found
    for (const plain of plainer(found)) await takes(plain)
    for (let atOnce = Math.ceil(pathsIn(found).length / 2); atOnce > 1; atOnce = Math.ceil(atOnce / 2))
      await leaveOut(atOnce)
    await leaveOut(1)
    for (const path of pathsIn(found))
      for (const less of smaller(at(found, path), path)) if (await takes(replaced(found, path, less) as JobInput)) break
  }
  return found
}
