/**
 * A checkpoint, to be written: of every rank a file (several where it holds much) with the parts that no rank before it
 * holds, then the job and the tokenizer, then the manifest that names them all. One file is made at a time: a checkpoint
 * need not fit into memory twice. What is to be written while the run goes on is captured first: a copy of all numbers,
 * together with where the run stood.
 */
import { type Dim, type Rank, software, worldOf } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { type Box, elementsIn, type Numbers, storedShape } from './box.js'
import { requireFinite } from './checkpoint.js'
import { format, type Manifest, type Part, type Position, printManifest, sumOf } from './manifest.js'
import { parseSafetensors, printSafetensors } from './safetensors.js'
import { type Shard, shardsOf } from './shards.js'
import type { Texts } from './texts.js'

/** Which run writes, where it stands, and what is needed to use its weights later. */
export interface Snapshot extends Position {
  /** A UUID. */
  readonly run: string
  /** The runs it goes on from, the last one first. */
  readonly line?: readonly string[]
  /** The job as JSON. */
  readonly job: unknown
  /** The tokenizer.json its text was encoded with. */
  readonly tokenizer?: string | undefined
  /** What else says how the model is used. */
  readonly texts?: Texts | undefined
}

/** A part of a tensor that a rank writes. */
export interface WrittenPart {
  readonly tensor: string
  readonly dims: readonly Dim[]
  readonly box: Box
  readonly values: Numbers
}

export type PartsOfRank = readonly [rank: Rank, parts: readonly WrittenPart[]]

/** What `held` keeps in a frame, and maybe more behind it. */
type HeldIn = (shard: Shard) => Numbers

/** What each rank writes, one after the other, as it is when it is asked for: not a copy. */
export function* writtenParts(program: Program, held: HeldIn): Generator<PartsOfRank> {
  for (let rank = 0; rank < worldOf(program.mesh); rank++)
    yield [
      rank,
      shardsOf(program, rank).flatMap(shard =>
        shard.written
          ? [
              {
                tensor: shard.tensor,
                dims: shard.dims,
                box: boxOf(shard),
                values: held(shard).subarray(0, elementsIn(shard)),
              },
            ]
          : [],
      ),
    ]
}

/** The same as it is now, in memory that another thread can read: `room` of the last time is used again if it is as large. */
export interface Captured {
  readonly parts: readonly PartsOfRank[]
  readonly room: SharedArrayBuffer
}

export function captureParts(program: Program, held: HeldIn, room?: SharedArrayBuffer): Captured {
  const sources = [...writtenParts(program, held)]
  const bytesIn = ({ byteLength }: Numbers) => Math.ceil(byteLength / 8) * 8
  const bytes = sources.reduce((sum, [, parts]) => parts.reduce((n, { values }) => n + bytesIn(values), sum), 0)
  const memory = room?.byteLength === bytes ? room : new SharedArrayBuffer(bytes)
  let at = 0
  const copied = (values: Numbers): Numbers => {
    const { length } = values
    const copy =
      values instanceof Float64Array ? new Float64Array(memory, at, length) : new Float32Array(memory, at, length)
    copy.set(values)
    at += bytesIn(values)
    return copy
  }
  const parts = sources.map(
    ([rank, parts]): PartsOfRank => [rank, parts.map(part => ({ ...part, values: copied(part.values) }))],
  )
  return { parts, room: memory }
}

/** `name` is the program's. */
export interface Heading extends Snapshot {
  readonly name: string
}

/**
 * The files of a checkpoint. Files of more bytes than `mostBytes` some systems do not write. Throws NotFinite where a value
 * is not: nobody could resume from it.
 */
export function* printParts(
  { run, line, job, tokenizer, texts = {}, name, ...position }: Heading,
  ranks: Iterable<PartsOfRank>,
  mostBytes = 2 ** 30,
): Generator<readonly [file: string, content: string | Uint8Array]> {
  const tensors: Record<string, { dims: Shard['dims']; shards: Part[] }> = {}
  const files: Record<string, string> = {}
  for (const [rank, parts] of ranks)
    for (const [i, group] of groupsOf(parts, mostBytes).entries()) {
      const file = `rank-${String(rank).padStart(5, '0')}${i > 0 ? `-${i + 1}` : ''}.safetensors`
      for (const { tensor, dims, box } of group) {
        tensors[tensor] ??= { dims, shards: [] }
        tensors[tensor].shards.push({ rank, file, ...box })
      }
      const content = fileOf(group, { format, run, step: String(position.step), rank: String(rank) })
      files[file] = parseSafetensors(content).headSum
      yield [file, content]
    }
  for (const [file, text] of [
    ['job.json', `${JSON.stringify(job, null, 2)}\n`],
    ['tokenizer.json', tokenizer],
    ...Object.entries(texts),
  ] as const) {
    if (text === undefined) continue
    files[file] = sumOf(new TextEncoder().encode(text))
    yield [file, text]
  }
  const before = line && line.length > 0 && { line }
  const manifest: Manifest = { format, name, run, software: software.engine, ...before, ...position, tensors, files }
  yield ['manifest.json', printManifest(manifest)]
}

export const printCheckpoint = (program: Program, snapshot: Snapshot, held: HeldIn, mostBytes?: number) =>
  printParts({ ...snapshot, name: program.name }, writtenParts(program, held), mostBytes)

const boxOf = ({ start, shape, line }: Shard): Box => ({ start, shape, ...(line && { line }) })

function groupsOf(parts: readonly WrittenPart[], mostBytes: number): WrittenPart[][] {
  const groups: WrittenPart[][] = []
  let bytes = 0
  for (const part of parts) {
    if (groups.length === 0 || bytes + part.values.byteLength > mostBytes) {
      groups.push([])
      bytes = 0
    }
    groups[groups.length - 1].push(part)
    bytes += part.values.byteLength
  }
  return groups
}

function fileOf(group: readonly WrittenPart[], metadata: Readonly<Record<string, string>>): Uint8Array {
  const parts = Object.fromEntries(group.map(({ tensor, box }) => [tensor, box]))
  const tensors = group.map(({ tensor, box, values }) => {
    requireFinite(tensor, values)
    const dtype = values instanceof Float64Array ? 'f64' : 'f32'
    return [tensor, { dtype, shape: storedShape(box), values }] as const
  })
  return printSafetensors(Object.fromEntries(tensors), { ...metadata, parts: JSON.stringify(parts) })
}
