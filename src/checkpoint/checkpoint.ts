/**
 * A checkpoint, read: a manifest that says which part of which whole tensor lies in which file, and the files, one or
 * more a rank. Written by `write.ts` and by the runtime of emitted programs (src/emit/runtime/checkpoint.py); whoever
 * wrote it under whatever plan, any plan finds its own parts in it.
 */
import { type Dim, elementsOf } from '../base/index.js'
import { type Box, copyShared, elementsIn, type Numbers } from './box.js'
import { openSafetensors, type Tensors } from './safetensors.js'

export const format = 'lockstep checkpoint 1'

/** Where a run stood. */
export interface Position {
  /** Steps it had taken. */
  readonly step: number
  readonly seed: number
  /** What of the data it had seen; checkpoints of the first days do not say. */
  readonly data?: { readonly samples: number; readonly epoch: number; readonly fingerprint: string }
}

export interface Checkpoint extends Position {
  /** 'param.NAME', 'm.NAME', 'v.NAME' -> its dims. */
  readonly tensors: ReadonlyMap<string, readonly Dim[]>
  /** The files its parts lie in, beside the manifest. */
  readonly files: readonly string[]
  /** Whole, row-major. Throws an Error that names file, tensor and rank. */
  tensor(name: string): Float64Array
  /** Parts of a tensor, from whatever parts it was written in; each of these is read once. Returns all that is wrong with them. */
  fill(name: string, targets: readonly Target[]): string[]
}

export interface Target extends Box {
  readonly values: Numbers
}

interface Part extends Box {
  readonly rank: number
  readonly file: string
}

interface Entry {
  readonly dims: readonly Dim[]
  readonly shards: readonly Part[]
}

export interface Manifest extends Position {
  readonly format: string
  readonly name: string
  readonly tensors: Readonly<Record<string, Entry>>
}

/** The bytes of a file of the checkpoint's folder, those from `begin` to `end` if it has as many. */
export type ReadFile = (file: string, begin: number, end: number) => Uint8Array

/** Throws an Error fit to print. */
export function readCheckpoint(read: ReadFile): Checkpoint {
  const manifest = manifestOf(new TextDecoder().decode(read('manifest.json', 0, Number.MAX_SAFE_INTEGER)))
  const { step, seed, data } = manifest
  const entries = Object.entries(manifest.tensors)
  const files = new Map<string, Tensors>()
  const valuesOf = (part: Part, name: string): Numbers => {
    const where = `${part.file} (written by rank ${part.rank})`
    const bytes = (begin: number, end: number) => read(part.file, begin, end)
    const open = files.get(part.file) ?? located(`${where}, tensor ${name}`, () => openSafetensors(bytes))
    files.set(part.file, open)
    const { shape, values } = located(where, () => open(name))
    if (shape.join() !== part.shape.join())
      throw new Error(`${where}: tensor ${name} is ${sizes(shape)}, but ${sizes(part.shape)} in the manifest`)
    return values
  }
  const fill: Checkpoint['fill'] = (name, targets) => {
    const entry = Object.hasOwn(manifest.tensors, name) ? manifest.tensors[name] : undefined
    if (!entry) return [`the checkpoint holds no ${name}`]
    const filled = targets.map(() => 0)
    const wrong: string[] = []
    for (const part of entry.shards) {
      try {
        const values = valuesOf(part, name)
        for (const [i, target] of targets.entries()) filled[i] += copyShared(part, values, target, target.values)
      } catch (e) {
        wrong.push(messageOf(e))
      }
    }
    const covered = targets.every((target, i) => filled[i] === elementsIn(target))
    return covered || wrong.length > 0 ? wrong : [`the shards of ${name} do not cover it`]
  }
  return {
    step,
    seed,
    ...(data && { data }),
    tensors: new Map(entries.map(([name, { dims }]) => [name, dims])),
    files: [...new Set(entries.flatMap(([, { shards }]) => shards.map(({ file }) => file)))].sort(),
    fill,
    tensor(name) {
      const whole = wholeOf(manifest.tensors[name]?.dims ?? [])
      const wrong = fill(name, [whole])
      if (wrong.length > 0) throw new Error(wrong.join('; '))
      return whole.values
    },
  }
}

/** All of a tensor, to be filled. */
export const wholeOf = (dims: readonly Dim[]): Target & { readonly values: Float64Array } => ({
  start: dims.map(() => 0),
  shape: dims.map(({ size }) => size),
  values: new Float64Array(elementsOf(dims)),
})

export const sizes = (shape: readonly number[]): string => shape.join(' x ')

function located<T>(where: string, work: () => T): T {
  try {
    return work()
  } catch (e) {
    throw new Error(`${where}: ${messageOf(e)}`)
  }
}

const messageOf = (e: unknown): string => (e instanceof Error ? e.message : String(e))

function manifestOf(text: string): Manifest {
  let manifest: Manifest
  try {
    manifest = JSON.parse(text)
  } catch {
    throw new Error('manifest.json is not JSON')
  }
  if (manifest?.format !== format) throw new Error(`manifest.json is not of a ${format}`)
  const sound =
    [manifest.step, manifest.seed].every(Number.isSafeInteger) &&
    typeof manifest.tensors === 'object' &&
    Object.values(manifest.tensors ?? {}).every(
      entry =>
        Array.isArray(entry?.dims) && Array.isArray(entry.shards) && entry.shards.every(part => isPart(part, entry)),
    )
  if (!sound) throw new Error('manifest.json lacks step, tensors or their shards')
  return manifest
}

/** A name of a file beside the manifest, never a path out of the folder; a part that lies in the whole. */
const isPart = ({ file, start, shape }: Part, { dims }: Entry): boolean =>
  typeof file === 'string' &&
  /^[\w-][\w.-]*$/.test(file) &&
  [start, shape].every(box => Array.isArray(box) && box.length === dims.length && box.every(isSize)) &&
  dims.every(({ size }, d) => start[d] + shape[d] <= size)

const isSize = (n: unknown): boolean => Number.isSafeInteger(n) && (n as number) >= 0 // it is a number
