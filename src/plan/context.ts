/** What cp, its kind of attention and the model's sizes say together. */
import { divisorsNear, type Problem, roundUp } from '../base/index.js'
import type { ModelConfig } from '../model/index.js'
import { advised, clause, refused } from './phrases.js'
import { contextOf, headSplit, type Rule } from './rule.js'
import type { Plan } from './schema.js'

export const context: Rule = function* ({ model, training: { seq }, plan }) {
  const { cp, zigzag } = plan
  yield* withoutEffect(plan)
  if (cp === 1) return
  const { outer } = contextOf(plan)
  const next = roundUp(seq, 2 * cp)
  if (model.family === 'mlp') yield refused('plan.cp', 'plan/indivisible/mlp', { cp })
  else if (seq % cp !== 0)
    yield refused('plan.cp', 'plan/indivisible/cp', { seq, cp, rest: seq % cp, next, near: divisorsNear(seq, cp) })
  else if (zigzag && outer > 1 && seq % (2 * outer) !== 0)
    yield refused('plan.zigzag', 'plan/indivisible/zigzag', {
      ...{ seq, ranks: ranksWithQueries(plan), rest: seq % (2 * outer) },
      fitting: [`seq ${next}`, ...(outer === cp ? halves(seq, cp) : []), 'zigzag: false'],
    })
}

/** As a plan says how many ranks have queries of their own in attention. */
export function ranksWithQueries(plan: Plan): string {
  const { outer } = contextOf(plan)
  return outer === plan.cp ? `cp ${outer}` : `ring ${outer}`
}

/** Ranks nearby that two chunks each of such a sequence go to. */
const halves = (seq: number, cp: number): string[] =>
  seq % 2 === 0 ? divisorsNear(seq / 2, cp).map(ranks => `cp ${ranks}`) : []

function* withoutEffect({ cp, zigzag, attention }: Plan): Iterable<Problem> {
  const say = (field: string, why: string) => advised(`plan.${field}`, 'plan/no-effect/with', { why })
  if (cp === 1 && zigzag !== undefined) yield say('zigzag', 'cp 1')
  if (cp === 1 && (attention === 'ring' || attention === 'ulysses')) yield say('attention', 'cp 1')
  if (cp > 1 && zigzag && contextOf({ cp, attention }).outer === 1)
    yield say('zigzag', 'ulysses, whose ranks attend to the full sequence')
}

/** The ranks of a plan's kind of attention are cp, and those that exchange heads have heads enough. */
export const contextHeads: Rule = function* ({ model, plan }) {
  const { cp, tp, attention } = plan
  const { outer, ulysses } = contextOf(plan)
  const product = outer * ulysses
  if (product !== cp)
    return void (yield refused('plan.attention', 'plan/indivisible/attention', {
      ...{ ulysses, ring: outer, product, cp },
      fitting: [...(cp % ulysses === 0 ? [`ring ${cp / ulysses}`] : []), `cp ${product}`],
    }))
  const whole = unexchangeable(model, tp, ulysses)
  if (whole === undefined) return
  const fits = (n: number) => cp % n === 0 && unexchangeable(model, tp, n) === undefined
  const fewer = Array.from({ length: ulysses }, (_, i) => ulysses - i).find(fits) ?? 1
  const instead = fewer > 1 ? `{ ulysses: ${fewer}, ring: ${cp / fewer} }, ` : ''
  const path = typeof attention === 'object' ? 'plan.attention.ulysses' : 'plan.attention'
  const { own, group, more, kvHeads } = whole
  const left = tp > 1 ? clause('.left', { tp }) : ''
  yield group === undefined
    ? refused(path, 'plan/indivisible/heads', { heads: kvHeads, left, ulysses, instead })
    : refused(path, 'plan/indivisible/kv-heads', { ulysses, own, more, kvHeads, left, group, instead })
}

/** Heads that tp leaves a rank and that cannot be split over so many ranks: `own` ways by keys, and not `more` ways by groups of queries. */
interface Unexchangeable {
  readonly kvHeads: number
  readonly own: number
  readonly more: number
  /** Queries of a key; undefined: every query has its own. */
  readonly group: number | undefined
}

export function unexchangeable(model: ModelConfig, ranks: number, ulysses: number): Unexchangeable | undefined {
  if (model.family === 'mlp' || ulysses === 1) return undefined
  const { kvHeads } = model
  const { tp, ulysses: split } = headSplit(ranks, ulysses, kvHeads)
  const group = model.heads / kvHeads / tp.group
  if (!Number.isInteger(group) || group % split.group === 0) return undefined // heads that tp does not divide are told there
  const whole = kvHeads === model.heads
  return {
    ...{ kvHeads: kvHeads / tp.kvHeads, own: split.kvHeads, more: split.group },
    group: whole ? undefined : group,
  }
}
