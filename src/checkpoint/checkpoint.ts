/**
 * A checkpoint, read: a manifest that says which part of which whole tensor lies in which file, and the files. Written
 * by the runtime of emitted programs (src/emit/runtime/checkpoint.py), one file a rank; read here whole.
 */
import { type Dim, elementsOf, error, type Problem } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { parseSafetensors, type Tensors } from './safetensors.js'

export const format = 'lockstep checkpoint 1'

export interface Checkpoint {
  readonly step: number
  readonly seed: number
  /** 'param.NAME', 'm.NAME', 'v.NAME' -> its dims. */
  readonly tensors: ReadonlyMap<string, readonly Dim[]>
  /** The files its parts lie in, beside the manifest. */
  readonly files: readonly string[]
  /** Whole, row-major. Throws an Error that names file, tensor and rank. */
  tensor(name: string): Float64Array
}

interface Part {
  readonly rank: number
  readonly file: string
  readonly start: readonly number[]
  readonly shape: readonly number[]
}

interface Entry {
  readonly dims: readonly Dim[]
  readonly shards: readonly Part[]
}

interface Manifest {
  readonly format: string
  readonly step: number
  readonly seed: number
  readonly tensors: Readonly<Record<string, Entry>>
}

/** `read` gives a file of the checkpoint's folder. Throws an Error fit to print. */
export function readCheckpoint(read: (file: string) => Uint8Array): Checkpoint {
  const manifest = manifestOf(new TextDecoder().decode(read('manifest.json')))
  const files = new Map<string, Tensors>()
  const open = ({ file, rank }: Part, name: string): Tensors => {
    const known = files.get(file)
    if (known) return known
    const tensors = located(`${file} (written by rank ${rank}), tensor ${name}`, () => parseSafetensors(read(file)))
    files.set(file, tensors)
    return tensors
  }
  const tensors = new Map(Object.entries(manifest.tensors).map(([name, { dims }]) => [name, dims]))
  return {
    step: manifest.step,
    seed: manifest.seed,
    tensors,
    files: [...new Set(Object.values(manifest.tensors).flatMap(({ shards }) => shards.map(({ file }) => file)))].sort(),
    tensor(name) {
      const entry = manifest.tensors[name]
      if (!entry) throw new Error(`the checkpoint holds no ${name}`)
      return assemble(name, entry, part =>
        located(`${part.file} (written by rank ${part.rank})`, () => open(part, name)(name).values),
      )
    },
  }
}

function located<T>(where: string, work: () => T): T {
  try {
    return work()
  } catch (e) {
    throw new Error(`${where}: ${e instanceof Error ? e.message : String(e)}`)
  }
}

function manifestOf(text: string): Manifest {
  let manifest: Manifest
  try {
    manifest = JSON.parse(text)
  } catch {
    throw new Error('manifest.json is not JSON')
  }
  if (manifest?.format !== format) throw new Error(`manifest.json is not of a ${format}`)
  const sound =
    Number.isSafeInteger(manifest.step) &&
    typeof manifest.tensors === 'object' &&
    Object.values(manifest.tensors).every(
      ({ dims, shards }) => Array.isArray(dims) && Array.isArray(shards) && shards.every(isPart),
    )
  if (!sound) throw new Error('manifest.json lacks step, tensors or their shards')
  return manifest
}

/** A name of a file beside the manifest, never a path out of the folder. */
const isPart = ({ file, start, shape }: Part): boolean =>
  typeof file === 'string' && /^[\w-][\w.-]*$/.test(file) && Array.isArray(start) && Array.isArray(shape)

function assemble(name: string, { dims, shards }: Entry, valuesOf: (part: Part) => ArrayLike<number>): Float64Array {
  const whole = new Float64Array(elementsOf(dims)).fill(NaN)
  for (const part of shards) {
    const values = valuesOf(part)
    for (let i = 0; i < values.length; i++) whole[indexOf(i, part, dims)] = values[i]
  }
  if (whole.some(Number.isNaN)) throw new Error(`the shards of ${name} do not cover it`)
  return whole
}

/** Where element i of a part lies in the whole. */
function indexOf(i: number, { start, shape }: Part, dims: readonly Dim[]): number {
  let [index, stride] = [0, 1]
  for (let d = dims.length - 1; d >= 0; d--) {
    index += (start[d] + (i % shape[d])) * stride
    i = Math.floor(i / shape[d])
    stride *= dims[d].size
  }
  return index
}

/** What keeps a program from starting with these weights. */
export function checkpointProblems(program: Program, { tensors }: Checkpoint): Problem[] {
  const sizes = (dims: readonly Dim[]) => dims.map(({ size }) => size).join(' x ')
  return program.params.flatMap(({ name, dims }) => {
    const held = tensors.get(`param.${name}`)
    if (!held) return [error('checkpoint/missing', '', `the checkpoint holds no parameter ${name}`)]
    return sizes(held) === sizes(dims)
      ? []
      : [
          error(
            'checkpoint/shape',
            '',
            `parameter ${name} is ${sizes(held)} in the checkpoint, but ${sizes(dims)} in the job`,
          ),
        ]
  })
}
