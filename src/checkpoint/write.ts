/**
 * A checkpoint, to be written: of every rank a file (several where it holds much) with the parts that no rank before it
 * holds, then the job and the tokenizer, then the manifest that names them all. One file is made at a time: a checkpoint
 * need not fit into memory twice.
 */
import { worldOf } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { type Box, elementsIn, type Numbers, storedShape } from './box.js'
import { requireFinite } from './checkpoint.js'
import { format, type Manifest, type Part, type Position, printManifest, sumOf } from './manifest.js'
import { parseSafetensors, printSafetensors } from './safetensors.js'
import { besides, type Shard, shardsOf } from './shards.js'

/** Which run writes, where it stands, and what is needed to use its weights later. */
export interface Snapshot extends Position {
  /** A UUID. */
  readonly run: string
  /** The job as JSON. */
  readonly job: unknown
  /** The tokenizer.json its text was encoded with. */
  readonly tokenizer?: string | undefined
}

/**
 * `held` is what a rank keeps in a frame, and maybe more behind it. Files of more bytes than `mostBytes` some systems do
 * not write. Throws NotFinite where a value is not: nobody could resume from it.
 */
export function* printCheckpoint(
  program: Program,
  { run, job, tokenizer, ...position }: Snapshot,
  held: (shard: Shard) => Numbers,
  mostBytes = 2 ** 30,
): Generator<readonly [file: string, content: string | Uint8Array]> {
  const tensors: Record<string, { dims: Shard['dims']; shards: Part[] }> = {}
  const files: Record<string, string> = {}
  for (let rank = 0; rank < worldOf(program.mesh); rank++) {
    const pieces = shardsOf(program, rank).flatMap(shard =>
      shard.written ? [{ shard, values: valuesOf(shard, held) }] : [],
    )
    for (const [i, group] of groupsOf(pieces, mostBytes).entries()) {
      const file = `rank-${String(rank).padStart(5, '0')}${i > 0 ? `-${i + 1}` : ''}.safetensors`
      for (const { shard } of group) {
        tensors[shard.tensor] ??= { dims: shard.dims, shards: [] }
        tensors[shard.tensor].shards.push({ rank, file, ...boxOf(shard) })
      }
      const content = fileOf(group, { format, run, step: String(position.step), rank: String(rank) })
      files[file] = parseSafetensors(content).headSum
      yield [file, content]
    }
  }
  for (const [file, text] of [
    ['job.json', `${JSON.stringify(job, null, 2)}\n`],
    ['tokenizer.json', tokenizer],
  ] as const) {
    if (text === undefined) continue
    files[file] = sumOf(new TextEncoder().encode(text))
    yield [file, text]
  }
  const manifest: Manifest = { format, name: program.name, run, ...position, tensors, files }
  yield ['manifest.json', printManifest(manifest)]
}

/** Where ranks hold addends, or one rank holds several, their sum: no plan but this one would know what to do with each of them. */
function valuesOf(shard: Shard, held: (shard: Shard) => Numbers): Numbers {
  const [first, ...others] = (shard.addends ?? [shard.rank]).flatMap(rank =>
    besides(shard).map(part => held({ ...part, rank }).subarray(0, elementsIn(shard))),
  )
  return others.length === 0 ? first : first.map((value, i) => others.reduce((sum, one) => sum + one[i], value))
}

interface WrittenPiece {
  readonly shard: Shard
  readonly values: Numbers
}

const boxOf = ({ start, shape, line }: Shard): Box => ({ start, shape, ...(line && { line }) })

function groupsOf(pieces: readonly WrittenPiece[], mostBytes: number): WrittenPiece[][] {
  const groups: WrittenPiece[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const piece of pieces) {
    if (bytes + piece.values.byteLength > mostBytes) {
      groups.push([])
      bytes = 0
    }
    groups[groups.length - 1].push(piece)
    bytes += piece.values.byteLength
  }
  return groups
}

function fileOf(pieces: readonly WrittenPiece[], metadata: Readonly<Record<string, string>>): Uint8Array {
  const parts = Object.fromEntries(pieces.map(({ shard }) => [shard.tensor, boxOf(shard)]))
  const tensors = pieces.map(({ shard, values }) => {
    requireFinite(shard.tensor, values)
    const dtype = values instanceof Float64Array ? 'f64' : 'f32'
    return [shard.tensor, { dtype, shape: storedShape(shard), values }] as const
  })
  return printSafetensors(Object.fromEntries(tensors), { ...metadata, parts: JSON.stringify(parts) })
}
