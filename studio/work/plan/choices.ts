/**
 * What can be chosen instead, control by control: every value with the link it leads to, or why it cannot be. The plan always has as
 * many ranks as there are devices: what one axis takes another gives, dp before all others, and none that is pinned.
 */
import { check, Job, jobFields, type Problem, planPrecisions, recomputePolicies, scheduleNames } from 'lockstep'
import type { Context } from '../modules.js'
import { divisors } from './divisors.js'
import { type Asked, asPlan, type Changes, type Link, linkOfPlan, readLink } from './link.js'
import { refused } from './phrases.js'
import { type RareField, rare, rareFields } from './rare.js'

export interface Choice {
  readonly value: string
  /** The link that has it, where there is such a plan. */
  readonly link?: Changes
  readonly refused?: Problem
}

export type Field =
  | Axis
  | 'ep'
  | 'sequenceParallel'
  | 'zero'
  | 'schedule'
  | 'chunks'
  | 'microbatches'
  | 'recompute'
  | 'precision'
  | RareField

export interface Control {
  readonly field: Field
  readonly value: string
  readonly meaning: string
  /** Few plans decide it: it need not be seen at once. */
  readonly rare: boolean
  readonly choices: readonly Choice[]
}

export interface ChoicesInput {
  readonly link: Link
  /** Axes that are to stay as they are. */
  readonly pins: readonly string[]
}

/** The controls of one plan. */
export interface Offer extends ChoicesInput {
  readonly controls: readonly Control[]
}

const axes = ['tp', 'cp', 'pp', 'dp'] as const
type Axis = (typeof axes)[number]
type Plan = Job['plan']
type Changed = Partial<Record<keyof Plan, unknown>>

/** Milliseconds between pauses. */
const turn = 8

/** What fields mean, whatever the plan: the schema is read once. */
let meanings: ReadonlyMap<string, string> | undefined

export async function choices({ link, pins }: ChoicesInput, { pause }: Context): Promise<Offer> {
  const asked = await readLink(link)
  const { plan } = asked.job
  meanings ??= new Map(jobFields().map(({ path, meaning }) => [path, meaning]))
  const rarer = rareFields.map(field => [field, rare[field].values(asked.job)] as const)
  const controls: Control[] = []
  let began = performance.now()
  for (const [field, values] of [...controlsOf(asked, pins), ...rarer]) {
    const found: Choice[] = []
    for (const [value, draft] of values) {
      found.push(await judged(asked, value, draft, field))
      if (performance.now() - began < turn) continue
      await pause()
      began = performance.now()
    }
    const meaning = meanings.get(`plan.${field}`) ?? ''
    controls.push({ field, value: chosenIn(plan, field), meaning, rare: isRare(field), choices: found })
  }
  return { link, pins, controls }
}

const isRare = (field: Field): field is RareField => Object.hasOwn(rare, field)

const chosenIn = (plan: Plan, field: Field): string => (isRare(field) ? rare[field].now(plan) : String(plan[field]))

/** Another plan, or why there is none. */
type Draft = Changed | Problem
type Values = readonly (readonly [string, Draft])[]

const isProblem = (draft: Draft): draft is Problem => 'severity' in draft

async function judged(asked: Asked, value: string, draft: Draft, field: Field): Promise<Choice> {
  if (isProblem(draft)) return { value, refused: draft }
  const parsed = Job.safeParse({ ...asked.job, plan: changed(asked.job.plan, draft) })
  if (!parsed.success)
    return { value, refused: refused('plan', 'plan/ranks/none', { why: parsed.error.issues[0]?.message ?? '' }) }
  const wrong = check(parsed.data).find(one => one.severity === 'error' || isIdle(one, asked, field))
  return wrong ? { value, refused: wrong } : { value, link: await linkOfPlan(asked, parsed.data.plan) }
}

/** A rare decision that would change nothing is none. */
const isIdle = ({ code, path }: Problem, { warnings }: Asked, field: Field): boolean =>
  isRare(field) &&
  code === 'plan/no-effect' &&
  path.startsWith(`plan.${field.split('.')[0]}`) &&
  !warnings.some(one => one.path === path) // what is so already is no reason

function changed(plan: Plan, changes: Changed): Changed {
  const { chunks, ...rest } = plan
  // Chunks are those of a schedule.
  return { ...rest, ...('schedule' in changes ? {} : { chunks }), ...changes }
}

export const planWith = (plan: Plan, changes: Changed): Plan => asPlan(changed(plan, changes))

function controlsOf(asked: Asked, pins: readonly string[]): (readonly [Field, Values])[] {
  const { plan } = asked.job
  const { globalBatch } = asked.job.training
  const one = (field: keyof Plan, values: readonly unknown[]): Values =>
    values.map(value => [String(value), { [field]: value }])
  const experts = 'moe' in asked.job.model ? asked.job.model.moe?.experts : undefined
  return [
    ...axes.map(axis => [axis, axisValues(asked, axis, pins)] as const),
    ...(experts ? [['ep', one('ep', divisors(experts))] as const] : []),
    ['sequenceParallel', one('sequenceParallel', [false, true])],
    ['zero', one('zero', [0, 1, 2, 3])],
    ['microbatches', one('microbatches', divisors(globalBatch / plan.dp))],
    ['schedule', one('schedule', scheduleNames)],
    ...(plan.chunks > 1 || plan.schedule === 'interleaved' ? [['chunks', chunkValues(asked)] as const] : []),
    ['recompute', one('recompute', recomputePolicies)],
    ['precision', one('precision', planPrecisions)],
  ]
}

function chunkValues({ job: { plan, model } }: Asked): Values {
  const layers = 'layers' in model ? model.layers : 1
  const counts = divisors(layers).filter(count => count <= 16 && count * plan.pp <= layers + 2)
  return [...new Set([plan.chunks, ...counts])].sort((a, b) => a - b).map(chunks => [String(chunks), { chunks }])
}

/** Sizes beyond which nobody splits so. */
const mostOf: Readonly<Record<Axis, number>> = { tp: 64, cp: 64, pp: 128, dp: 2 ** 20 }

function axisValues(asked: Asked, axis: Axis, pins: readonly string[]): Values {
  const { devices } = asked.cluster
  return divisors(devices)
    .filter(size => size <= mostOf[axis] || size === asked.job.plan[axis])
    .map(size => [String(size), withAxis(asked, axis, size, pins)])
}

/** Those that give way to each axis, in order. */
const givers: Readonly<Record<Axis, readonly Axis[]>> = {
  tp: ['dp', 'pp', 'cp'],
  cp: ['dp', 'pp', 'tp'],
  pp: ['dp', 'tp', 'cp'],
  dp: ['pp', 'tp', 'cp'],
}

function withAxis({ job, cluster }: Asked, axis: Axis, size: number, pins: readonly string[]): Draft {
  const { plan, training } = job
  const free = givers[axis].filter(other => !pins.includes(other))
  for (const giver of free) {
    const fixed = axes.filter(other => other !== axis && other !== giver).reduce((n, other) => n * plan[other], size)
    if (cluster.devices % fixed !== 0) continue
    const batch = training.globalBatch
    return following({ plan, from: batch, to: batch }, { [axis]: size, [giver]: cluster.devices / fixed }, pins)
  }
  const others = axes.filter(other => other !== axis && plan[other] > 1).map(other => ` x ${other} ${plan[other]}`)
  return refused(`plan.${axis}`, 'plan/ranks/axis', {
    ...{ product: `${axis} ${size}${others.join('')}`, devices: cluster.devices },
  })
}

interface Moved {
  readonly plan: Plan
  /** Sequences of a batch before and after. */
  readonly from: number
  readonly to: number
}

/** What follows from other axes: the sequences of a microbatch stay as many, and what splits nothing is left out. */
export function following(
  { plan, from, to }: Moved,
  sizes: Partial<Record<Axis, number>>,
  pins: readonly string[],
): Changed {
  const next = { ...plan, ...sizes }
  const each = from / plan.dp / plan.microbatches
  const sequences = to / next.dp
  const near = divisors(sequences).findLast(count => count <= sequences / each) ?? 1
  return {
    ...sizes,
    ...(Number.isInteger(sequences) && !pins.includes('microbatches') && { microbatches: near }),
    ...(next.tp === 1 ? { sequenceParallel: false } : plan.tp === 1 ? { sequenceParallel: true } : {}),
    ...(next.dp * next.cp === 1 ? { zero: 0 } : {}),
    ...(next.pp === 1 ? { schedule: '1f1b' } : {}),
    // A split by hand is one for a number of stages.
    ...(next.pp === plan.pp ? {} : { layers: 'even' }),
  }
}
