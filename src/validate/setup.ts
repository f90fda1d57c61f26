/** Row -> setup, or the reason why there is none. */
import { type Cluster, clusterOf, findEntry, type Precision } from '../cluster/index.js'
import { eras, type Setup, type Shape, type Software, type Split } from '../estimate/index.js'
import type { Row } from './row.js'
import { type Family, families, type Study } from './studies.js'

export type Made = { readonly setup: Setup } | { readonly aside: string }

const precisions: Readonly<Record<string, Precision>> = { f16: 'f16', bf16: 'bf16', fp8: 'fp8' }

export function setupOf(row: Row, study: Study): Made {
  const reason = study.aside?.(row)
  if (reason) return { aside: reason }
  const given = complete({ ...study.defaults, ...row.numbers, ...study.perRow?.(row) })
  const missing = needed.filter(name => given[name] === undefined)
  if (missing.length > 0) return { aside: `not printed: ${missing.join(', ')}` }
  const n = given as Numbers // nothing that is needed is missing
  const word = row.precision || study.defaults?.precision
  const precision = precisions[word ?? '']
  if (precision === undefined) return { aside: `precision ${word ?? 'not printed'}` }
  if ((n.ep ?? 1) > 1) return { aside: 'mixture of experts' }
  if (!findEntry(row.device)) return { aside: `device ${row.device} is not in the catalog` }
  const split = splitOf(row, n, study)
  if (typeof split === 'string') return { aside: split }
  const shape = shapeOf(n, typeof study.family === 'string' ? study.family : study.family(row))
  return { setup: { shape, split, cluster: clusterFor(row, n, study), precision, software: softwareOf(row, study) } }
}

/** Data ranks are what is left of the devices. */
function complete(given: Row['numbers']): Row['numbers'] {
  const { devices, tp, pp, cp = 1, dp } = given
  return dp !== undefined || !devices || !tp || !pp ? given : { ...given, dp: devices / (tp * pp * cp) }
}

const needed = ['layers', 'embed', 'heads', 'vocab', 'seq', 'batch', 'microbatch', 'devices', 'tp', 'pp', 'dp'] as const
type Numbers = Record<(typeof needed)[number], number> & Row['numbers']

function shapeOf(n: Numbers, family: Family): Shape {
  return {
    ...families[family],
    layers: n.layers,
    embed: n.embed,
    heads: n.heads,
    kvHeads: n.kvHeads ?? n.heads,
    headDim: n.embed / n.heads,
    ffn: n.ffn ?? 4 * n.embed,
    vocab: n.vocab,
    seq: n.seq,
  }
}

function splitOf(row: Row, n: Numbers, study: Study): Split | string {
  const { tp, pp, dp, cp = 1, microbatch, batch, chunks = 1 } = n
  if (tp * pp * dp * cp !== n.devices)
    return `tp ${tp} x pp ${pp} x dp ${dp} x cp ${cp} = ${tp * pp * dp * cp}, not ${n.devices} devices`
  const microbatches = batch / (microbatch * dp)
  if (!Number.isInteger(microbatches)) return `batch ${batch} / (microbatch ${microbatch} x dp ${dp}) is not whole`
  const recompute = row.recompute || study.defaults?.recompute
  if (!isRecompute(recompute)) return `recompute ${recompute || 'not printed'}`
  const ends = n.layers % pp !== 0 && (n.layers + 2) % pp === 0
  return {
    tp,
    pp,
    dp,
    cp,
    ep: 1,
    sequenceParallel: (n.sp ?? 0) === 1 && tp > 1,
    zero: zeroOf(n.zero),
    schedule: row.schedule === '' || (row.schedule === 'interleaved' && chunks === 1) ? '1f1b' : row.schedule,
    chunks: pp === 1 ? 1 : chunks,
    microbatches,
    microbatch,
    recompute,
    ...(ends && { layers: lighterEnds(n.layers, pp) }),
  }
}

/** The embedding and the head each take the place of a layer. */
const lighterEnds = (layers: number, pp: number): number[] => {
  const each = (layers + 2) / pp
  return Array.from({ length: pp }, (_, rank) => (rank === 0 || rank === pp - 1 ? each - 1 : each))
}

const isRecompute = (word: string | undefined): word is Split['recompute'] =>
  word === 'none' || word === 'selective' || word === 'full' || word === 'per-op'

const zeroOf = (zero = 0): Split['zero'] => (zero === 1 || zero === 2 || zero === 3 ? zero : 0)

const clusters = new Map<string, Cluster>()

function clusterFor(row: Row, n: Numbers, { network = {} }: Study): Cluster {
  const key = JSON.stringify([row.device, n.devices, network])
  let cluster = clusters.get(key)
  if (!cluster) clusters.set(key, (cluster = clusterOf(row.device, n.devices, network)))
  return cluster
}

function softwareOf(row: Row, study: Study): Software {
  const era = eras[study.era]
  return study.software ? { ...era, ...study.software(row) } : era
}
