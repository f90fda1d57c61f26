/** Pipelines of torchtitan: schedules by name, and how it deals layers out to stages. */
import { type Reading, wordOf } from '../reading.js'
import type { Keys } from './keys.js'

const schedules: Readonly<Record<string, readonly [name: string, many: boolean]>> = {
  '1f1b': ['1f1b', false],
  gpipe: ['gpipe', false],
  loopedbfs: ['looped-bfs', true],
  interleaved1f1b: ['interleaved', true],
  flexibleinterleaved1f1b: ['interleaved', true],
  interleavedzerobubble: ['interleaved-zb', true],
  zbvzerobubble: ['zb-v', true],
  dualpipev: ['dualpipe-v', true],
}

const mostStages = 10_000

export function readStages(r: Reading, keys: Keys, pp: number, layers: number | undefined): void {
  const at = keys.of('pipeline_parallel_schedule')
  const csv = keys.of('pipeline_parallel_schedule_csv')
  if (pp === 1) {
    r.cosmetic(at, csv, keys.of('pipeline_parallel_layers_per_stage'), ...lessKeys(keys))
    return
  }
  const file = r.word(csv)
  if (file) {
    r.carry(csv, 'plan.schedule', { file })
    r.cosmetic(at)
    return
  }
  const word = r.word(at) ?? '1F1B'
  const found = schedules[word.toLowerCase().replaceAll('_', '')]
  if (!found) {
    r.refuse(at, `schedule ${word} is not supported`)
    return
  }
  const [name, many] = found
  if (r.has(at)) r.carry(at, 'plan.schedule', name)
  else r.assume(at, 'plan.schedule', name, '1F1B is the default of torchtitan')
  const stages = stagesOf(r, keys, { pp, many, layers })
  if (stages === undefined) return
  if (stages > mostStages) {
    r.refuse(at, `${stages} stages exceed the limit of ${mostStages}`)
    return
  }
  r.derive(at, 'plan.chunks', stages / pp, `${stages} stages on pp ${pp}: ${stages / pp} each`)
  const points = keys.of('pipeline_parallel_split_points')
  const split = layers === undefined ? undefined : (splitAt(r, points, layers) ?? keys.dealt(r, layers, stages))
  if (split === undefined) r.drop(points, 'the split of layers depends on the model')
  else r.derive(r.has(points) ? points : at, 'plan.layers', split, keys.rule(split))
}

const lessKeys = (keys: Keys): string[] => [
  keys.of('pipeline_parallel_first_stage_less_layers'),
  keys.of('pipeline_parallel_last_stage_less_layers'),
]

interface Counts {
  readonly pp: number
  readonly many: boolean
  readonly layers: number | undefined
}

function stagesOf(r: Reading, keys: Keys, { pp, many, layers }: Counts): number | undefined {
  const path = keys.of('pipeline_parallel_layers_per_stage')
  const each = r.whole(path, 1)
  if (each === undefined || layers === undefined) return pp * (many ? 2 : 1)
  const [first, last] = keys.counted ? lessKeys(keys).map(key => r.whole(key) ?? 1) : [0, 0]
  const stages = Math.ceil((layers + first + last) / each)
  if (stages % pp !== 0 || (stages === pp) === many) {
    r.refuse(
      path,
      `ceil((layers ${layers} + ${first} + ${last}) / ${each}) = ${stages} stages cannot be shared by pp ${pp}${many ? ', two or more each' : ', one each'}`,
    )
    return undefined
  }
  r.derive(
    path,
    'plan.chunks',
    stages / pp,
    `ceil((layers ${layers} + ${first} + ${last}) / ${each}) = ${stages} stages`,
  )
  return stages
}

/** `layers.4` begins a stage. */
function splitAt(r: Reading, path: string, layers: number): number[] | undefined {
  const points = r.raw(path)
  const list = typeof points === 'string' ? points.split(',').filter(word => word !== '') : points
  if (!Array.isArray(list) || list.length === 0) return undefined
  const starts = list.map(point => Number(/^layers\.(\d+)$/.exec(wordOf(point))?.[1] ?? Number.NaN))
  if (starts.some(Number.isNaN)) {
    r.refuse(path, 'expected points such as layers.4')
    return undefined
  }
  const edges = [0, ...starts, layers]
  return edges.slice(1).map((edge, i) => edge - edges[i])
}
