/** How layers lie on pipeline ranks: stages a rank holds, and layers of each stage, in all the ways Megatron says it. */
import { shorten } from '../../base/index.js'
import { layersOfStage, stagesOfLayout } from './layout.js'
import type { Mesh } from './mesh.js'
import type { Terms } from './terms.js'

const byLayers = 'num-layers-per-virtual-pipeline-stage'
const byStages = 'num-virtual-stages-per-pipeline-rank'
const byLayout = 'pipeline-model-parallel-layout'

export function readStages(t: Terms, { pp }: Mesh, layers: number | undefined): number {
  const given = [byLayers, byStages, byLayout].filter(term => t.has(term))
  if (given.length > 1) {
    for (const term of given) t.refuse(term, `one of ${given.join(', ')} at most`)
    return 1
  }
  if (pp === 1) {
    t.read(...given, 'decoder-first-pipeline-num-layers', 'decoder-last-pipeline-num-layers')
    t.read('account-for-embedding-in-pipeline-split', 'account-for-loss-in-pipeline-split')
    return 1
  }
  if (t.has(byLayout)) return readLayout(t, pp, layers)
  const chunks = readChunks(t, pp, layers)
  if (layers === undefined) nameUneven(t)
  else if (!t.reading.refused) writeLayers(t, pp, chunks, layers)
  writeSchedule(t, chunks)
  return chunks
}

const uneven = [
  ...['decoder-first-pipeline-num-layers', 'decoder-last-pipeline-num-layers'],
  ...['account-for-embedding-in-pipeline-split', 'account-for-loss-in-pipeline-split', byLayers],
]

function nameUneven(t: Terms): void {
  for (const term of uneven) if (t.has(term)) t.drop(term, 'the number of layers is not in the file: set --model')
}

function readChunks(t: Terms, pp: number, layers: number | undefined): number {
  const each = t.whole(byLayers, 1)
  const chunks = t.whole(byStages, 1)
  if (chunks !== undefined) {
    if (chunks > 1) t.carry(byStages, 'plan.chunks', chunks)
    else t.read(byStages)
    return chunks
  }
  if (each === undefined || layers === undefined) return 1
  const found = layers / pp / each
  if (!Number.isInteger(found)) {
    t.refuse(
      byLayers,
      `layers ${layers} / pp ${pp} / ${each} = ${found}, must be an integer: older releases would train fewer layers`,
    )
    return 1
  }
  if (found > 1) t.derive(byLayers, 'plan.chunks', found, `chunks ${found} = layers ${layers} / pp ${pp} / ${each}`)
  else t.read(byLayers)
  return found
}

function writeSchedule(t: Terms, chunks: number): void {
  const path = (term: string) => t.path(term)
  if (t.is('zero-bubble-v-schedule')) {
    const setups = { zb: 'zb-v', half: 'v-half', min: 'v-min' }
    const name = t.choice('zero-bubble-v-schedule-mem-setup', setups, 'as with zb')
    t.carry('zero-bubble-v-schedule', 'plan.schedule', name ?? 'zb-v')
    t.reading.set('plan.chunks', 2)
    t.read('zero-bubble-v-schedule-mem-setup', 'enable-zero-bubble', 'zero-bubble-max-pending-backward')
  } else if (t.is('enable-zero-bubble') || t.is('enable-zbh1-pipeline')) {
    const term = t.is('enable-zero-bubble') ? 'enable-zero-bubble' : 'enable-zbh1-pipeline'
    const pending = Number(t.word('zero-bubble-max-pending-backward') ?? 0)
    const pp = Number(t.reading.field('plan.pp'))
    t.carry(
      term,
      'plan.schedule',
      pending > pp ? 'zb-h2' : 'zb-h1',
      pending > pp ? `${pending} microbatches may be in flight` : '',
    )
    t.read('zero-bubble-max-pending-backward')
  } else if (chunks > 1) t.reading.set('plan.schedule', 'interleaved')
  else
    t.reading.assume(
      path('pipeline-model-parallel-size'),
      'plan.schedule',
      '1f1b',
      'what Megatron runs without virtual stages',
    )
}

function writeLayers(t: Terms, pp: number, given: number, layers: number) {
  const chunks = t.is('zero-bubble-v-schedule') ? 2 : given
  const stages = pp * chunks
  const [first, last] = ['first', 'last'].map(which => t.whole(`decoder-${which}-pipeline-num-layers`, 0))
  const embedding = t.is('account-for-embedding-in-pipeline-split')
  const loss = t.is('account-for-loss-in-pipeline-split')
  t.read('account-for-embedding-in-pipeline-split', 'account-for-loss-in-pipeline-split')
  if (first !== undefined || last !== undefined) return byRanks(t, { pp, chunks, layers, first, last })
  if (embedding || loss) return accounted(t, stages, layers, { embedding, loss })
  if (layers % stages === 0) return
  const method = t.word('pp-partition-method')
  if (method !== undefined || t.has('deepspeed')) return partitioned(t, stages, layers, method)
  t.refuse('num-layers', `layers ${layers} % (pp ${pp} x chunks ${chunks} = ${stages}) = ${layers % stages}, must be 0`)
}

interface Uneven {
  readonly pp: number
  readonly chunks: number
  readonly layers: number
  readonly first: number | undefined
  readonly last: number | undefined
}

/** Layers of the first and of the last rank, shared among their chunks; the ranks between share the rest. */
function byRanks(t: Terms, { pp, chunks, layers, first, last }: Uneven) {
  const terms = { first: 'decoder-first-pipeline-num-layers', last: 'decoder-last-pipeline-num-layers' } as const
  const between = pp - (first === undefined ? 0 : 1) - (last === undefined ? 0 : 1)
  const rest = layers - (first ?? 0) - (last ?? 0)
  const middle = between === 0 ? 0 : rest / between / chunks
  const [of, end] = [(first ?? 0) / chunks, (last ?? 0) / chunks]
  const term = first === undefined ? terms.last : terms.first
  if (![middle, of, end].every(one => Number.isInteger(one) && one >= 0) || (between === 0 && rest !== 0))
    return t.refuse(
      term,
      `(layers ${layers} - ${first ?? 0} - ${last ?? 0}) / ${between} ranks / ${chunks} chunks = ${middle}, must be an integer`,
    )
  const ranks = Array.from({ length: pp }, (_, rank) =>
    rank === 0 && first !== undefined ? of : rank === pp - 1 && last !== undefined ? end : middle,
  )
  const list = Array.from({ length: chunks }, () => ranks).flat()
  t.read(terms.first, terms.last)
  t.derive(
    term,
    'plan.layers',
    list,
    `of ranks: ${first ?? middle * chunks}, ${middle * chunks} ..., ${last ?? middle * chunks}`,
  )
}

/** The embedding, or the head, counts as a layer. */
function accounted(
  t: Terms,
  stages: number,
  layers: number,
  { embedding, loss }: { embedding: boolean; loss: boolean },
) {
  const all = layers + (embedding ? 1 : 0) + (loss ? 1 : 0)
  const term = embedding ? 'account-for-embedding-in-pipeline-split' : 'account-for-loss-in-pipeline-split'
  if (all % stages !== 0)
    return t.refuse(
      term,
      `layers ${layers} + ${all - layers} = ${all}, % ${stages} stages = ${all % stages}, must be 0`,
    )
  const each = all / stages
  const list = Array.from(
    { length: stages },
    (_, i) => each - (i === 0 && embedding ? 1 : 0) - (i === stages - 1 && loss ? 1 : 0),
  )
  t.derive(term, 'plan.layers', list, `${each} a stage = (layers ${layers} + ${all - layers}) / ${stages}`)
}

/** DeepSpeed's pipelines: of layers, or of layers and the tables at both ends. */
function partitioned(t: Terms, stages: number, layers: number, method = 'type:transformer'): void {
  if (!/^(uniform|parameters|type:.+)$/i.test(method)) {
    t.refuse('pp-partition-method', `expected uniform, parameters or type:layer, got ${method}`)
    return
  }
  const tables = /embed/i.test(method) ? 2 : 0
  const all = layers + tables
  const even = Array.from({ length: stages }, (_, i) => Math.floor(all / stages) + (i < all % stages ? 1 : 0))
  const list = tables ? even.map((count, i) => count - (i === 0 || i === stages - 1 ? 1 : 0)) : even
  const term = t.has('pp-partition-method') ? 'pp-partition-method' : 'num-layers'
  t.derive(
    term,
    'plan.layers',
    list,
    `${method}: ${layers} layers${tables ? ' and both tables' : ''} on ${stages} stages`,
  )
}

function readLayout(t: Terms, pp: number, layers: number | undefined): number {
  const raw = t.raw(byLayout)
  const stages = Array.isArray(raw) ? raw.map(listed) : stagesOfLayout(String(raw))
  if (!stages || stages.length % pp !== 0) {
    t.refuse(
      byLayout,
      stages
        ? `${stages.length} stages % pp ${pp} = ${stages.length % pp}, must be 0`
        : `expected a layout such as Et*3|(tt|)*29,m|L, got ${shorten(String(raw), 60)}`,
    )
    return 1
  }
  const list = stages.map(layersOfStage)
  const sum = list.reduce((a, b) => a + b, 0)
  if (layers !== undefined && sum !== layers) t.refuse(byLayout, `${sum} layers in it, but layers ${layers}`)
  const chunks = stages.length / pp
  t.derive(byLayout, 'plan.layers', list, `${stages.length} stages = pp ${pp} x chunks ${chunks}`)
  if (chunks > 1) t.reading.set('plan.chunks', chunks)
  writeSchedule(t, chunks)
  return chunks
}

/** Bridge writes stages as lists of names. */
const listed = (stage: unknown): string =>
  (Array.isArray(stage) ? stage : [stage])
    .map(one => (one === 'decoder' ? 't' : one === 'embedding' ? 'E' : one === 'mtp' ? 'm' : 'L'))
    .join('')
