/**
 * A plan as one word of a link: `tp2.sp.pp4.dp8.z1.m16.1f1b.bf16`. What has no short form here stays in the job beside it, so every
 * plan can be written. The word is only read: whether the plan is one, the core's schema says.
 */
import { Plan, type Problem, planPrecisions, recomputePolicies, scheduleNames } from 'lockstep'
import { refused } from './phrases.js'

/** Fields of a plan as a job file has them. */
export type PlanFields = Readonly<Record<string, unknown>>

/** Letters before a number, in the order they are written; `sp` stands behind `tp`. */
const numbers = {
  tp: 'tp',
  cp: 'cp',
  pp: 'pp',
  dp: 'dp',
  ep: 'ep',
  etp: 'etp',
  z: 'zero',
  m: 'microbatches',
} as const

/** Words that mean one value of one field. */
const flags: Readonly<Record<string, PlanFields>> = {
  sp: { sequenceParallel: true },
  ring: { attention: 'ring' },
  ulysses: { attention: 'ulysses' },
  'gather-step': { gather: 'step' },
  'reduce-step': { reduce: 'step' },
  alone: { overlap: false },
  host: { offload: { optimizer: 'host' } },
}

const wordsOf = (field: string, values: readonly string[]): Readonly<Record<string, PlanFields>> =>
  Object.fromEntries(values.map(value => [value, { [field]: value }]))

const known: Readonly<Record<string, PlanFields>> = {
  ...flags,
  ...wordsOf('schedule', scheduleNames),
  ...wordsOf(
    'recompute',
    recomputePolicies.filter(policy => policy !== 'none'),
  ),
  ...wordsOf('precision', planPrecisions),
}

export interface ReadWord {
  readonly fields: PlanFields
  readonly problems: readonly Problem[]
}

export function readWord(word: string): ReadWord {
  const read = word.split('.').map(readPart)
  return {
    fields: Object.assign({}, ...read.map(({ fields }) => fields)),
    problems: read.flatMap(({ problems }) => problems),
  }
}

function readPart(part: string): ReadWord {
  if (Object.hasOwn(known, part)) return { fields: known[part]!, problems: [] }
  const [, letters = '', digits = ''] = part.match(/^([a-z]+)(\d{1,6})$/) ?? []
  const value = Number(digits)
  if (Object.hasOwn(numbers, letters))
    return { fields: { [numbers[letters as keyof typeof numbers]]: value }, problems: [] } // just looked
  if (letters === 'c') return { fields: { chunks: value }, problems: [] }
  const ends = part.match(/^ends(\d{1,4})-(\d{1,4})$/)
  if (ends) return { fields: { layers: { first: Number(ends[1]), last: Number(ends[2]) } }, problems: [] }
  return { fields: {}, problems: [unknown(part)] }
}

const unknown = (part: string): Problem =>
  refused('plan', 'schema/value/part', { text: part.slice(0, 40), example: 'tp2.sp.pp4.dp8.z1.m16.1f1b.bf16' })

/** The word of a plan, and the fields it has no short form for. */
export function showWord(plan: Plan): { readonly word: string; readonly rest: PlanFields } {
  const parts = [...counted(plan), ...named(plan), plan.precision]
  const chunked = meant(parts.join('.')).chunks === plan.chunks ? [] : [`c${plan.chunks}`]
  const word = [...parts, ...chunked].join('.')
  return { word, rest: restOf(plan, meant(word)) }
}

function counted(plan: Plan): string[] {
  return Object.entries(numbers).flatMap(([letters, field]) => [
    ...(plan[field] > (field === 'zero' ? 0 : 1) ? [`${letters}${plan[field]}`] : []),
    ...(field === 'tp' && plan.sequenceParallel ? ['sp'] : []),
  ])
}

function named(plan: Plan): string[] {
  const { schedule, recompute, layers } = plan
  const ends =
    typeof layers === 'object' && 'first' in layers && layers.first !== undefined && layers.last !== undefined
  const others = Object.keys(flags).filter(word => word !== 'sp')
  return [
    ...(typeof schedule === 'string' && (plan.pp > 1 || schedule !== '1f1b') ? [schedule] : []),
    ...(typeof recompute === 'string' && recompute !== 'none' ? [recompute] : []),
    ...(ends ? [`ends${layers.first}-${layers.last}`] : []),
    ...others.filter(word =>
      Object.keys(flags[word]!).every(field => same(fieldOf(plan, field), fieldOf(meant(word), field))),
    ),
  ]
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b)
const fieldOf = (plan: Plan, field: string): unknown => plan[field as keyof Plan] // the fields of words are those of plans

const meanings = new Map<string, Plan>()
/** The plan that a word alone says. */
function meant(word: string): Plan {
  const plan = meanings.get(word) ?? Plan.parse(readWord(word).fields)
  if (meanings.size > 1000) meanings.clear()
  meanings.set(word, plan)
  return plan
}

/** What a plan says that its word does not. */
const restOf = (plan: Plan, said: Plan): PlanFields =>
  Object.fromEntries(
    Object.entries(plan).filter(([field, value]) => value !== undefined && !same(value, fieldOf(said, field))),
  )
