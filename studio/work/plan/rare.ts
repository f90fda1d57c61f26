/** Decisions that few plans take: each with the value a plan has, and those it could have. */
import { attentionKinds, fp8Recipes, type Job } from 'lockstep'
import { divisors } from './divisors.js'

type Plan = Job['plan']
type Changed = Partial<Record<keyof Plan, unknown>>

interface Rare {
  readonly now: (plan: Plan) => string
  readonly values: (job: Job) => readonly (readonly [value: string, changes: Changed])[]
}

/** A field of plans as it is. */
const plain = <Field extends keyof Plan>(field: Field, values: readonly Plan[Field][], unset = 'auto'): Rare => ({
  now: plan => String(plan[field] ?? unset),
  values: () => values.map(value => [String(value ?? unset), { [field]: value }]),
})

/** One entry of a mapping that a plan need not have; `none` is the entry's absence. */
const entry = (field: 'compress' | 'offload' | 'fp8', name: string, values: readonly string[], none: string): Rare => {
  const of = (plan: Plan): Readonly<Record<string, unknown>> => ({ ...plan[field] })
  return {
    now: plan => String(of(plan)[name] ?? none),
    values: ({ plan }) =>
      [none, ...values].map(value => {
        const { [name]: _, ...others } = of(plan)
        const changed = value === none ? others : { ...others, [name]: value }
        return [value, { [field]: value === none && isUsual(field, others) ? undefined : changed }]
      }),
  }
}

/** What a mapping says beside its defaults is nothing: it can be left out. Recipes of fp8 are all there is to it. */
const isUsual = (
  field: string,
  { reduce, gather, optimizer, activations, parameters }: Readonly<Record<string, unknown>>,
) =>
  field === 'fp8' ||
  ![
    reduce,
    gather,
    ...[optimizer, parameters].filter(at => at !== 'device'),
    activations === 'none' ? undefined : activations,
  ].some(one => one !== undefined)

/** Stages at the ends, which also hold embedding and head, with fewer layers than the others. */
function splits({ plan, model }: Job): readonly (readonly [string, Changed])[] {
  const each = Math.ceil(model.layers / (plan.pp * plan.chunks))
  const fewer = [1, 2].map(less => Math.max(0, each - less))
  const ends = fewer.flatMap(n => [{ last: n }, { first: n, last: n }])
  const shown = (layers: Plan['layers']) => layersOf({ ...plan, layers })
  const own = plan.layers === 'even' ? [] : [plan.layers]
  const all = (['even', ...own, ...ends] as const).map(layers => [shown(layers), { layers }] as const)
  return [...new Map(all).entries()]
}

const layersOf = ({ layers }: Pick<Plan, 'layers'>): string => {
  if (layers === 'even') return 'even'
  if (Array.isArray(layers)) return layers.join(' ')
  return Object.entries(layers)
    .flatMap(([end, n]) => (n === undefined ? [] : [`${end} ${n}`]))
    .join(', ')
}

const MiB = 2 ** 20

const attentions = ({ plan: { cp } }: Job): readonly (readonly [string, Changed])[] => {
  const both = [2, 4, 8].filter(n => n < cp && cp % n === 0).map(n => ({ ulysses: n, ring: cp / n }))
  return [...attentionKinds, ...both].map(attention => [attentionOf({ attention }), { attention }])
}

const attentionOf = ({ attention }: Pick<Plan, 'attention'>): string =>
  typeof attention === 'string' ? attention : `ulysses ${attention.ulysses} x ring ${attention.ring}`

export const rare = {
  overlap: plain('overlap', [true, false]),
  bucket: {
    now: ({ bucket }) => `${bucket / MiB} MiB`,
    values: ({ plan }) =>
      [...new Set([1, 5, 25, 100, 400, plan.bucket / MiB])]
        .sort((a, b) => a - b)
        .map(size => [`${size} MiB`, { bucket: size * MiB }]),
  },
  shard: {
    now: ({ dp, shard = dp }) => String(shard),
    values: ({ plan: { dp } }) => divisors(dp).map(n => [String(n), { shard: n === dp ? undefined : n }]),
  },
  gather: plain('gather', ['use', 'step']),
  reduce: plain('reduce', ['microbatch', 'step']),
  layers: { now: layersOf, values: splits },
  attention: { now: attentionOf, values: attentions },
  offload: entry('offload', 'optimizer', ['host', 'disk'], 'device'),
  'offload.activations': entry('offload', 'activations', ['layer-inputs'], 'none'),
  'offload.parameters': entry('offload', 'parameters', ['host', 'disk'], 'device'),
  gradients: plain('gradients', [undefined, 'f32', 'bf16']),
  fp8: entry('fp8', 'recipe', fp8Recipes, 'none'),
  'compress.reduce': entry('compress', 'reduce', ['bf16', 'f16', 'int8', 'powersgd', 'topk', 'onebit'], 'none'),
  'compress.gather': entry('compress', 'gather', ['bf16', 'int8'], 'none'),
} as const satisfies Readonly<Record<string, Rare>>

export type RareField = keyof typeof rare
export const rareFields = Object.keys(rare) as readonly RareField[] // the keys of the table
