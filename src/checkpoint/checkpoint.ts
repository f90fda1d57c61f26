/**
 * A checkpoint, read: a manifest and the files it names, one or more a rank. Written by `write.ts` and by the runtime of
 * emitted programs (src/emit/runtime/checkpoint.py); whoever wrote it under whatever plan, any plan finds its own parts
 * in it. Every shard says which run and rank wrote it and which part of which tensor it holds: one that says anything
 * else than the manifest is refused.
 */
import { type Dim, elementsOf, failureClause, type Scalars, SpokenError } from '../base/index.js'
import { type Box, copyShared, elementsIn, type Numbers, storedShape } from './box.js'
import { type Entry, type Manifest, type Part, type Position, parseManifest, scalarsOf, sumOf } from './manifest.js'
import { openSafetensors, type Safetensors } from './safetensors.js'
import { type Texts, textNames, textsIn } from './texts.js'

export interface Checkpoint extends Position {
  /** The run that wrote it. */
  readonly run: string
  /** Who wrote it: a program and its version; undefined: an earlier one, which did not say. */
  readonly software?: string | undefined
  /** The runs it resumed from, the last one first. */
  readonly line: readonly string[]
  /** Numbers of its program that live from step to step. */
  readonly scalars: Scalars<number>
  /** 'param.NAME', 'm.NAME', 'v.NAME' -> its dims. */
  readonly tensors: ReadonlyMap<string, readonly Dim[]>
  /** The files beside the manifest. */
  readonly files: readonly string[]
  /** Whole, row-major. Throws an Error that names file, tensor and rank. */
  tensor(name: string): Float64Array
  /** Parts of a tensor, from whatever parts it was written in; each of these is read once. Returns all that is wrong with them. */
  fill(name: string, targets: readonly Target[]): string[]
  /** All that is not as it was written, of weights or of everything: every file is read to its end. */
  damages(share?: Share): Damage[]
  /** The job whose weights these are, as JSON: its `model` is their config. Throws an Error fit to print; so does `tokenizer`. */
  job(): unknown
  /** The tokenizer.json its text was encoded with; undefined where the job needs none. */
  tokenizer(): string | undefined
  /** What else says how the model is used, as a folder that its run began with had it. */
  texts(): Texts
}

/** Weights alone, to start from; or all that a step leaves to the next, to go on from. */
export type Share = 'weights' | 'everything'

/** What is wrong with a file of a checkpoint: of one tensor in it, where it is not the file itself, and who wrote it. */
export interface Damage {
  readonly file: string
  readonly tensor?: string
  readonly rank?: number
  /** Fit to print; names all three. */
  readonly message: string
}

export interface Target extends Box {
  readonly values: Numbers
}

/** The bytes of a file of the checkpoint's folder, those from `begin` to `end` if it has as many. */
export type ReadFile = (file: string, begin: number, end: number) => Uint8Array

/** Throws an Error fit to print. */
export function readCheckpoint(read: ReadFile): Checkpoint {
  const bytes = located('manifest.json', () => read('manifest.json', 0, Number.MAX_SAFE_INTEGER))
  const manifest = parseManifest(new TextDecoder().decode(bytes))
  const { step, seed, data, norms, run, software, line = [], tensors } = manifest
  const valuesOf = shardReader(manifest, read)
  const textHere = (file: string) => located(file, () => textOf(file, manifest, read))
  const fill: Checkpoint['fill'] = (name, targets) =>
    Object.hasOwn(tensors, name) ? filled(name, tensors[name], targets, valuesOf) : [`the checkpoint holds no ${name}`]
  return {
    step,
    seed,
    ...(data && { data }),
    ...(norms && { norms }),
    scalars: scalarsOf(manifest),
    run,
    software,
    line,
    tensors: new Map(Object.entries(tensors).map(([name, { dims }]) => [name, dims])),
    files: Object.keys(manifest.files).sort(),
    fill,
    damages: (share = 'everything') => damagesIn(manifest, read, share),
    tensor(name) {
      const whole = wholeOf(tensors[name]?.dims ?? [])
      const wrong = fill(name, [whole])
      if (wrong.length > 0) throw new Error(wrong.join('; '))
      return whole.values
    },
    job: () => JSON.parse(textHere('job.json') ?? 'null'),
    tokenizer: () => textHere('tokenizer.json'),
    texts: () => textsIn(textHere),
  }
}

function damagesIn(manifest: Manifest, read: ReadFile, share: Share): Damage[] {
  const valuesOf = shardReader(manifest, read)
  const wanted = Object.entries(manifest.tensors).filter(
    ([name]) => share === 'everything' || name.startsWith('param.'),
  )
  const damages = wanted.flatMap(([tensor, { dims, shards }]) => {
    const wrong = shards.flatMap(part =>
      damageOf({ file: part.file, tensor, rank: part.rank }, () => void valuesOf(part, tensor)),
    )
    const held = shards.reduce((sum, part) => sum + elementsIn(part), 0)
    const covered = held === elementsOf(dims)
    const message = `manifest.json: the shards of ${tensor} do not cover it`
    return covered ? wrong : [...wrong, { file: 'manifest.json', tensor, message }]
  })
  const texts = ['job.json', 'tokenizer.json', ...textNames].flatMap(file =>
    damageOf({ file }, () => void located(file, () => textOf(file, manifest, read))),
  )
  return [...damages, ...texts]
}

function damageOf(what: Omit<Damage, 'message'>, work: () => void): Damage[] {
  try {
    work()
    return []
  } catch (e) {
    return [{ ...what, message: messageOf(e) }]
  }
}

type ValuesOf = (part: Part, name: string) => Numbers

function filled(name: string, { shards }: Entry, targets: readonly Target[], valuesOf: ValuesOf): string[] {
  const counts = targets.map(() => 0)
  const wrong: string[] = []
  for (const part of shards) {
    try {
      const values = valuesOf(part, name)
      for (const [i, target] of targets.entries()) counts[i] += copyShared(part, values, target, target.values)
    } catch (e) {
      wrong.push(messageOf(e))
    }
  }
  const covered = targets.every((target, i) => counts[i] === elementsIn(target))
  return covered || wrong.length > 0 ? wrong : [`the shards of ${name} do not cover it`]
}

/** A file, and which part of each tensor it says to hold. */
interface ShardFile {
  readonly file: Safetensors
  readonly parts: Readonly<Record<string, unknown>> | undefined
}

function openShards(read: (begin: number, end: number) => Uint8Array): ShardFile {
  const file = openSafetensors(read)
  return { file, parts: parsed(file.metadata.parts ?? '{}') }
}

/** Opens each file once, and checks what it says of itself. */
function shardReader(manifest: Manifest, read: ReadFile): ValuesOf {
  const opened = new Map<string, ShardFile>()
  return (part, name) => {
    const where = `${part.file} (written by rank ${part.rank})`
    const bytes = (begin: number, end: number) => read(part.file, begin, end)
    const shards = opened.get(part.file) ?? located(`${where}, tensor ${name}`, () => openShards(bytes))
    opened.set(part.file, shards)
    return located(where, () => {
      const stored = manifest.tensors[name]?.stored ?? name
      const wrong = disagreement(manifest, part, stored, shards)
      if (wrong !== undefined) throw new Error(wrong)
      const { shape, values } = shards.file.tensor(stored)
      const said = storedShape(part)
      if (shape.join() !== said.join())
        throw new Error(`tensor ${name} is ${sizes(shape)}, but ${sizes(said)} in the manifest`)
      requireFinite(name, values)
      return values
    })
  }
}

/** What a shard says otherwise than the manifest: it is another run's, another rank's or another part. */
function disagreement(manifest: Manifest, part: Part, name: string, { file, parts }: ShardFile): string | undefined {
  const { run = 'none', step, rank } = file.metadata
  if (run !== manifest.run) return `is a shard of run ${run}, but the manifest is of run ${manifest.run}`
  if (step !== String(manifest.step)) return `is a shard of step ${step}, but the manifest is of step ${manifest.step}`
  if (rank !== String(part.rank)) return `was written by rank ${rank}`
  if (file.headSum !== manifest.files[part.file])
    return 'is corrupt: the CRC-32 of its header is not the one in the manifest'
  const { rank: _, file: __, ...box } = part
  const held = JSON.stringify(parts?.[name])
  return held === JSON.stringify(box)
    ? undefined
    : `holds the part ${held} of tensor ${name}, but the manifest says ${JSON.stringify(box)}`
}

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Nothing can be learned from a tensor with NaN or infinity in it: one step spreads it over all of them. */
export class NotFinite extends SpokenError {}

export function requireFinite(name: string, values: Numbers): void {
  let first = 0
  while (first < values.length && Number.isFinite(values[first])) first++
  if (first === values.length) return
  let count = 0
  for (const value of values) if (!Number.isFinite(value)) count++
  const found = { tensor: name, count, values: values.length, value: String(values[first]), first }
  throw new NotFinite(failureClause('.not-finite', found))
}

function textOf(file: string, { files }: Manifest, read: ReadFile): string | undefined {
  if (!Object.hasOwn(files, file)) return undefined
  const bytes = read(file, 0, Number.MAX_SAFE_INTEGER)
  if (sumOf(bytes) !== files[file]) throw new Error('is corrupt: its CRC-32 is not the one in the manifest')
  return new TextDecoder().decode(bytes)
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
