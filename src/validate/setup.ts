/** Row -> setup, or the reason why there is none. */
import { oneRank } from '../base/index.js'
import { type Cluster, clusterOf, findEntry } from '../cluster/index.js'
import { frameworks, type Setup, type Shape, type Software, type Split } from '../estimate/index.js'
import { type Counts, type Reading, readingOf } from './reading.js'
import type { Row } from './row.js'
import { type Family, families, type Study } from './studies.js'

export type Made = { readonly setup: Setup } | { readonly aside: string }

export function setupOf(row: Row, study: Study): Made {
  const reason = study.aside?.(row)
  if (reason) return { aside: reason }
  const reading = completed(readingOf(row), study.known?.(row) ?? {})
  const missing = needed.filter(name => reading[name] === undefined)
  if (missing.length > 0) return { aside: `not printed: ${missing.join(', ')}` }
  const sizes = reading as Sizes // nothing that is needed is missing
  const { precision } = reading
  if (precision === undefined) return { aside: `precision ${row.precision || 'not printed'}` }
  if ((sizes.ep ?? 1) > 1 && !sizes.experts) return { aside: 'not printed: its experts' }
  if (!findEntry(sizes.device)) return { aside: `device ${sizes.device} is not in the catalog` }
  const split = splitOf(sizes)
  if (typeof split === 'string') return { aside: split }
  const shape = shapeOf(sizes, typeof study.family === 'string' ? study.family : study.family(row))
  return { setup: { shape, split, cluster: clusterFor(sizes, study), precision, software: softwareOf(row, study) } }
}

const needed = [
  'layers',
  'embed',
  'heads',
  'vocab',
  'seq',
  'batch',
  'microbatch',
  'devices',
  'tp',
  'pp',
  'dp',
] as const satisfies readonly (keyof Counts)[]
type Sizes = Reading & Record<(typeof needed)[number], number>

/** The row's own words first, then what is known of its study; data ranks are what is left of the devices. */
function completed(reading: Reading, known: Partial<Reading>): Reading {
  const all: Reading = { ...reading }
  for (const name of Object.keys(known) as (keyof Reading)[])
    if (all[name] === undefined || overruled.has(name)) Object.assign(all, { [name]: known[name] })
  const { devices, tp, pp, cp = 1, dp } = all
  return dp !== undefined || !devices || !tp || !pp ? all : { ...all, dp: devices / (tp * pp * cp) }
}

/** What a study knows better than the cell of the table, which may hold words for people. */
const overruled: ReadonlySet<string> = new Set(['recompute', 'chunks', 'zero', 'network'])

function shapeOf(sizes: Sizes, family: Family): Shape {
  const { layers, embed, heads, vocab, seq } = sizes
  const { kvHeads = heads, ffn = 4 * embed, headDim = embed / heads, experts, latent, further = 0, window } = sizes
  return {
    ...{ ...families[family], embed, heads, kvHeads, headDim, ffn, vocab, seq },
    layers: layers + further,
    ...(experts && { experts }),
    ...(latent && { latent }),
    ...(further > 0 && { further }),
    ...(window !== undefined && { window: { tokens: window, layers: 'half' } }),
  }
}

function splitOf(sizes: Sizes): Split | string {
  const { tp, pp, dp, cp = 1, microbatch, batch, devices, layers, recompute, schedule } = sizes
  const world = tp * pp * dp * cp
  if (world !== devices) return `tp ${tp} x pp ${pp} x dp ${dp} x cp ${cp} = ${world}, not ${devices} devices`
  const microbatches = batch / (microbatch * dp)
  if (!Number.isInteger(microbatches)) return `batch ${batch} / (microbatch ${microbatch} x dp ${dp}) is not an integer`
  if (!isRecompute(recompute)) return `recompute ${recompute ?? 'not printed'}`
  if (schedule === undefined) return 'schedule: not in the cost model'
  if (pp > 1 && schedule === 'interleaved' && sizes.chunks === undefined) return 'not printed: chunks'
  const chunks = pp === 1 ? 1 : (sizes.chunks ?? 1)
  const all = layers + (sizes.further ?? 0)
  const lighter = all % (pp * chunks) !== 0 && (all + 2) % (pp * chunks) === 0
  return {
    ...{ ...oneRank, tp, pp, dp, cp, ep: sizes.ep ?? 1 },
    ...((sizes.etp ?? 1) > 1 && { etp: sizes.etp! }),
    sequenceParallel: (sizes.sequenceParallel ?? false) && tp > 1,
    zero: sizes.zero ?? 0,
    ...(sizes.sharded !== undefined && { sharded: sizes.sharded }),
    schedule: scheduleFor(schedule, chunks),
    chunks,
    microbatches,
    microbatch,
    recompute,
    ...(lighter && { layers: lighterEnds(all, pp * chunks) }),
  }
}

/** With one chunk nothing is interleaved, with several 1F1B is. */
function scheduleFor(schedule: Split['schedule'], chunks: number): Split['schedule'] {
  if (chunks === 1) return schedule === 'interleaved' ? '1f1b' : schedule
  return schedule === '1f1b' ? 'interleaved' : schedule
}

/** The embedding and the head each take the place of a layer. */
const lighterEnds = (layers: number, stages: number): number[] => {
  const each = (layers + 2) / stages
  return Array.from({ length: stages }, (_, stage) => (stage === 0 || stage === stages - 1 ? each - 1 : each))
}

const isRecompute = (word: string | undefined): word is Split['recompute'] =>
  word === 'none' || word === 'selective' || word === 'full' || word === 'per-op'

const clusterFor = ({ device, devices, network }: Sizes, study: Study): Cluster =>
  clusterOf(device, devices, { ...network, ...study.network })

function softwareOf(row: Row, study: Study): Software {
  const framework = frameworks[study.framework]
  return study.software ? { ...framework, ...study.software(row) } : framework
}
