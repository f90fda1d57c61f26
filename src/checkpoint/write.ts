/**
 * A checkpoint, to be written: of every rank a file (several where it holds much) with the parts that no rank before it
 * holds, then the manifest that names them. One file is made at a time: a checkpoint need not fit into memory twice.
 */
import { worldOf } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { elementsIn, type Numbers } from './box.js'
import { format, type Manifest, type Position } from './checkpoint.js'
import { printSafetensors } from './safetensors.js'
import { type Shard, shardsOf } from './shards.js'

/** `held` is what a rank keeps in a frame, and maybe more behind it. Files of more bytes than that some systems do not write. */
export function* printCheckpoint(
  program: Program,
  position: Position,
  held: (shard: Shard) => Numbers,
  mostBytes = 2 ** 30,
): Generator<readonly [file: string, content: string | Uint8Array]> {
  const tensors: Record<string, { dims: Shard['dims']; shards: Manifest['tensors'][string]['shards'][number][] }> = {}
  for (let rank = 0; rank < worldOf(program.mesh); rank++) {
    const parts = shardsOf(program, rank).flatMap(shard =>
      shard.written ? [{ shard, values: held(shard).subarray(0, elementsIn(shard)) }] : [],
    )
    for (const [i, group] of groupsOf(parts, mostBytes).entries()) {
      const file = `rank-${String(rank).padStart(5, '0')}${i > 0 ? `-${i + 1}` : ''}.safetensors`
      for (const { shard } of group) {
        const { tensor, dims, start, shape } = shard
        tensors[tensor] ??= { dims, shards: [] }
        tensors[tensor].shards.push({ rank, file, start, shape })
      }
      yield [file, fileOf(group, rank)]
    }
  }
  const manifest: Manifest = { format, name: program.name, ...position, tensors }
  yield ['manifest.json', `${JSON.stringify(manifest, null, 1)}\n`]
}

interface Part {
  readonly shard: Shard
  readonly values: Numbers
}

function groupsOf(parts: readonly Part[], mostBytes: number): Part[][] {
  const groups: Part[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const part of parts) {
    if (bytes + part.values.byteLength > mostBytes) {
      groups.push([])
      bytes = 0
    }
    groups[groups.length - 1].push(part)
    bytes += part.values.byteLength
  }
  return groups
}

const fileOf = (parts: readonly Part[], rank: number): Uint8Array =>
  printSafetensors(
    Object.fromEntries(
      parts.map(({ shard: { tensor, shape }, values }) => [
        tensor,
        { dtype: values instanceof Float64Array ? 'F64' : 'F32', shape, values },
      ]),
    ),
    { format, rank: String(rank) },
  )
