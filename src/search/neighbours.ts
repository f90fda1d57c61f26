/** What becomes of a plan when one decision is taken differently, and why: the reasons behind a choice. */
import type { Said } from '../base/index.js'
import type { Fit, Footprint, Parts, Split } from '../estimate/index.js'
import { check } from '../plan/index.js'
import { type Constraint, holds } from './constraint.js'
import { fitOfPrice } from './fitting.js'
import { changeTo, type Move, movesFrom } from './moves.js'
import type { Change, ReasonValues, VerdictValues } from './neighbour-words.js'
import { jobOf, type Request } from './request.js'
import { capacityOf, type Priced, priceOf, scaledTo } from './search.js'

export type Verdict =
  /** `check` refuses it, or no such plan can be written down. */
  | { readonly kind: 'impossible'; readonly why: Said<ReasonValues> }
  | { readonly kind: 'unwanted'; readonly constraint: string }
  | { readonly kind: 'unfit'; readonly over: number; readonly grew: keyof Footprint; readonly fit: Fit }
  /** How many times as long a step takes, and the parts that changed most, in seconds. */
  | { readonly kind: 'timed'; readonly ratio: number; readonly changes: readonly Change[] }

/** A single-change alternative to a plan: what changes, and whether it is faster, slower or impossible. */
export interface Neighbour {
  /** Where there is a plan, its change names every field that applying it takes. */
  readonly move: Move
  readonly verdict: Verdict
  /** The best plan with that change, if there is one. */
  readonly plan?: Priced
}

/**
 * Single-change alternatives to a plan: fastest first, then those that do not fit, are excluded by a constraint or
 * impossible. `scale` is the calibration factor of the costs.
 */
export function neighboursOf(request: Request, from: Priced, scale = 1): Neighbour[] {
  const capacity = capacityOf(request)
  const judged = movesFrom(request, from.split).map(move => judge(move, { request, from, capacity, scale }))
  return judged.sort((a, b) => orderOf(a) - orderOf(b))
}

const orderOf = ({ verdict }: Neighbour): number =>
  verdict.kind === 'timed' ? verdict.ratio : { unfit: 1e9, unwanted: 2e9, impossible: 3e9 }[verdict.kind]

interface Context {
  readonly request: Request
  readonly from: Priced
  readonly capacity: number
  readonly scale: number
}

function judge(move: Move, { request, from, capacity, scale }: Context): Neighbour {
  const refused = move.splits.map(split => refusalOf(request, split))
  const possible = move.splits.filter((_, i) => refused[i] === undefined)
  if (possible.length === 0)
    return { move, verdict: { kind: 'impossible', why: move.refused ?? refused[0] ?? noLayers } }
  const broken = possible.map(split => request.constraints.find(c => !holds(split, c)))
  const wanted = possible.filter((_, i) => broken[i] === undefined)
  if (wanted.length === 0) return { move, verdict: { kind: 'unwanted', constraint: (broken[0] as Constraint).text } } // none is undefined
  const plans = wanted.map(split => scaledTo(priceOf(request, split), scale))
  const fitting = plans.filter(({ bytes }) => bytes <= capacity)
  const applied = (plan: Priced): Move => ({ ...move, change: changeTo(move.change, from.split, plan.split) })
  if (fitting.length === 0) {
    const plan = plans.reduce((a, b) => (b.bytes < a.bytes ? b : a))
    const fit = fitOfPrice(request, plan)
    return {
      move: applied(plan),
      plan,
      verdict: { kind: 'unfit', over: plan.bytes - capacity, grew: grown(from, plan), fit },
    }
  }
  const plan = fitting.reduce((a, b) => (b.estimate.step < a.estimate.step ? b : a))
  const ratio = plan.estimate.step / from.estimate.step
  return { move: applied(plan), plan, verdict: { kind: 'timed', ratio, changes: changesOf(from, plan) } }
}

const noLayers: Said<ReasonValues> = { code: 'reason/layers', values: {} }

function refusalOf(request: Request, split: Split): Said<ReasonValues> | undefined {
  const problem = check(jobOf(request, split)).find(p => p.severity === 'error')
  return problem && { code: 'reason/refused', values: { problem } }
}

/** What grew most; where nothing did, what takes most. */
function grown(before: Priced, after: Priced): keyof Footprint {
  const kinds = Object.keys(after.estimate.memory) as (keyof Footprint)[] // the keys of a footprint are its kinds
  const growth = (kind: keyof Footprint) => after.estimate.memory[kind] - before.estimate.memory[kind]
  const most = (of: (kind: keyof Footprint) => number) => kinds.reduce((a, b) => (of(b) > of(a) ? b : a))
  const grew = most(growth)
  return growth(grew) > 0 ? grew : most(kind => after.estimate.memory[kind])
}

/** The parts of a step that differ, most first; those that hardly do are left out. */
export function changesOf(before: Priced, after: Priced): Change[] {
  const parts = Object.keys(after.estimate.parts) as (keyof Parts)[] // likewise
  const changes = parts.map(part => ({ part, seconds: after.estimate.parts[part] - before.estimate.parts[part] }))
  const most = Math.max(...changes.map(change => Math.abs(change.seconds)))
  return changes
    .filter(change => Math.abs(change.seconds) > 0.2 * most && Math.abs(change.seconds) > 1e-9)
    .sort((a, b) => Math.abs(b.seconds) - Math.abs(a.seconds))
    .slice(0, 2)
}

/** Steps that differ by less than this share are the same. */
const same = 5e-4

/** The verdict on an alternative, as a short message. */
export function verdictSentence(verdict: Verdict): Said<VerdictValues> {
  switch (verdict.kind) {
    case 'timed': {
      const by = verdict.ratio - 1
      if (Math.abs(by) < same) return { code: 'verdict/same', values: {} }
      return by > 0
        ? { code: 'verdict/slower', values: { by } }
        : { code: 'verdict/faster', values: { by: 1 / verdict.ratio - 1 } }
    }
    case 'unfit':
      return verdict.fit.verdict === 'fits if'
        ? { code: 'verdict/may-not-fit', values: { chance: verdict.fit.chance } }
        : { code: 'verdict/unfit', values: {} }
    case 'unwanted':
      return { code: 'verdict/unwanted', values: {} }
    case 'impossible':
      return { code: 'verdict/impossible', values: {} }
  }
}

/** Two parts that outweigh each other in a step that stays as long. */
function shiftedIn({
  ratio,
  changes: [one, other],
}: Extract<Verdict, { kind: 'timed' }>): Said<ReasonValues> | undefined {
  if (Math.abs(ratio - 1) >= same || !one || !other || one.seconds * other.seconds >= 0) return undefined
  const [less, more] = one.seconds < 0 ? [one, other] : [other, one]
  return { code: 'reason/shifted', values: { from: less.part, to: more.part, seconds: -less.seconds } }
}

/** Why an alternative is faster, slower or impossible, as a message. */
export function reasonSentence({ verdict, plan }: Neighbour): Said<ReasonValues> {
  switch (verdict.kind) {
    case 'timed':
      return shiftedIn(verdict) ?? { code: 'reason/changes', values: { changes: verdict.changes } }
    case 'unfit': {
      const { over, grew } = verdict
      return { code: 'reason/memory', values: { bytes: plan?.bytes ?? 0, over, grew } }
    }
    case 'unwanted':
      return { code: 'reason/constraint', values: { constraint: verdict.constraint } }
    case 'impossible':
      return verdict.why
  }
}
