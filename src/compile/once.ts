/**
 * What happens once a step and belongs to no parameter: clearing the sums, reading data, counting the tokens the loss
 * is divided by, adding loss and gradient norm up over the ranks, and counting the step. The count is known before the first backward,
 * so 1/count is folded into the gradient of the loss and no collective spans the pipeline on its behalf.
 */
import { type Layout, paramRoles, partialAxes, scalarsMoved, scalarsOf, whole } from '../base/index.js'
import { type ResultName, resultNames, showRole } from '../ir/index.js'
import { type Model, shardingOf } from '../model/index.js'
import { scalerOf, toldFor, updateSpace } from '../plan/index.js'
import type { BlockDrafts } from './blocks.js'
import { type ByKind, evaluates, type Facts, lossHolders, type TrainedBy, termHolders } from './compiled.js'
import { elect } from './elect.js'
import { canonical, type ShardedMesh, termLayout } from './layouts.js'
import { awaySlot, draftMoves } from './offload.js'
import { type SegmentDraft, SegmentWriter, type Slot, scalar } from './segment.js'
import { normSlot, readSlot, scalarSlot, slotOf, weighedSlot, weighs } from './slots.js'
import { divisorSlot, guardOf, normAxes, scaleIn } from './tail.js'

const place = (of: ResultName): Slot => ({ role: { is: 'result', of }, kind: 'workspace', offset: 0 })
const dataSlot = (of: string): Slot => ({ role: { is: 'input', of }, kind: 'data', offset: 0 })

export interface OnceDrafts {
  readonly clear: Readonly<Partial<Record<ResultName, SegmentDraft>>>
  /** Drafts by input. */
  readonly loads: Readonly<Record<string, SegmentDraft>>
  readonly count: SegmentDraft
  readonly sumCount: readonly SegmentDraft[]
  /** What the gradient of a scaled loss is divided by. */
  readonly divisor: readonly SegmentDraft[]
  readonly sumLoss: readonly SegmentDraft[]
  readonly sumTerms: readonly SegmentDraft[]
  readonly sumNorm: readonly SegmentDraft[]
  /** Tells which norms are too large for the step, where the run knows. */
  readonly weigh: readonly SegmentDraft[]
  /** What takes the numbers that updates read to the host, where that updates. */
  readonly down: readonly SegmentDraft[]
  /** Counts the step where it is taken, and moves the scale; none in an evaluation. */
  readonly take: readonly SegmentDraft[]
}

export function draftOnce(facts: Facts, blocks: ByKind<BlockDrafts>): OnceDrafts {
  const { s, model } = facts
  const last = model.blocks[model.blocks.length - 1]
  const lossLayout = blocks[last.kind].lossLayout
  if (!lossLayout) throw new Error(`the last block of ${model.name}, ${last.name}, has no loss`)
  const count = countTokens(s, model)
  const stages = several(lossHolders(facts))
  const everywhere: Layout = { splits: {}, partial: Object.fromEntries(normAxes(s).map(axis => [axis, 'sum'])) }
  const trains = !evaluates(facts)
  const terms = termHolders(facts)
  const isHere = { loss: true, count: true, normSquared: trains, terms: terms.length > 0 }
  const sums = resultNames.filter(name => isHere[name])
  const inputs = [...model.inputs, ...(trains ? toldTo(facts.training).map(scalar) : [])]
  return {
    clear: Object.fromEntries(sums.map(name => [name, clear(s, name)])),
    loads: Object.fromEntries(inputs.map(input => [input.name, load(s, input)])),
    count: count.segment,
    sumCount: sumUp(s, 'count', count.layout, stages),
    divisor: trains && facts.training.lossScale ? [divide(s, facts.training)] : [],
    sumLoss: sumUp(s, 'loss', lossLayout, stages),
    sumTerms: isHere.terms ? sumUp(s, 'terms', termLayout(s, model.dims), several(terms)) : [],
    sumNorm: trains ? sumUp(s, 'normSquared', everywhere) : [],
    weigh: trains && weighs(facts.training) ? [weigh(s)] : [],
    down: trains ? scalarsDown(s, facts) : [],
    take: trains ? [take(s, facts.training)] : [],
  }
}

/** The numbers of the step that optimizers read, as the host needs them. */
function scalarsDown(s: ShardedMesh, { plan, training }: Pick<Facts, 'plan' | 'training'>): SegmentDraft[] {
  const onHost = paramRoles
    .map(role => toldFor(training, role).optimizer)
    .filter(optimizer => updateSpace(plan, optimizer).space !== undefined)
  if (onHost.length === 0) return []
  const byAverage = training.ema ? (['normSquared', 'taken'] as const) : []
  const read = new Set([...onHost.flatMap(scalarsOf), ...byAverage])
  const moves = [...read].map(name => {
    const slot = readSlot(name, training)
    const to = { layout: whole, slot: awaySlot(showRole(slot.role), slot.kind, 'host') }
    return { tensor: scalar(name), from: { layout: whole, slot }, to }
  })
  return [draftMoves(s, 'down scalars', moves)]
}

/** Numbers that the run tells a step, beside its data. */
export const toldTo = (training: TrainedBy): readonly string[] => ['lr', ...(weighs(training) ? ['limit'] : [])]

function weigh(s: ShardedMesh): SegmentDraft {
  const w = new SegmentWriter(s)
  const norm = w.given('norm', scalar('normSquared'), whole, normSlot)
  const limit = w.given('limit', scalar('limit'), whole, slotOf({ is: 'named', of: 'limit' }, 'data'))
  const weighed = w.given('weighed', scalar('weighed'), whole, weighedSlot)
  w.emit({ kind: 'weigh', ins: [norm.ref, limit.ref], outs: [weighed.ref] })
  return w.draft('weigh', 'update')
}

function take(s: ShardedMesh, training: TrainedBy): SegmentDraft {
  const w = new SegmentWriter(s)
  const scaler = scalerOf(training.lossScale)
  const norm = w.given('norm', scalar('normSquared'), whole, readSlot('normSquared', training))
  const outs = scalarsMoved(scaler).map(name => w.given(name, scalar(name), whole, scalarSlot(name)).ref)
  w.emit({ kind: 'take', ...(scaler && { scaler }), ...guardOf(training), ins: [norm.ref], outs })
  return w.draft('take', 'update')
}

/** count / scale: divided by it, a gradient is scaled before it is rounded. */
function divide(s: ShardedMesh, training: TrainedBy): SegmentDraft {
  const w = new SegmentWriter(s)
  const count = w.given('count', scalar('count'), whole, place('count'))
  const divisor = w.given('divisor', scalar('divisor'), whole, divisorSlot(training))
  w.emit({ kind: 'scale', by: 1, ins: [count.ref], outs: [divisor.ref] })
  w.emit({ kind: 'unscale', ins: [scaleIn(w)], outs: [divisor.ref] })
  return w.draft('divide count', 'begin')
}

const several = (holders: readonly number[]) => (holders.length > 1 ? holders : undefined)

function clear(s: ShardedMesh, name: ResultName): SegmentDraft {
  const w = new SegmentWriter(s)
  w.emit({ kind: 'zero', ins: [], outs: [w.given(name, scalar(name), whole, place(name)).ref] })
  return w.draft(`clear ${name}`, 'begin')
}

function load(s: ShardedMesh, input: Model['inputs'][number]): SegmentDraft {
  const w = new SegmentWriter(s)
  const { ref } = w.given(input.name, input, canonical(s, input.dims, 'input'), dataSlot(input.name))
  w.emit({ kind: 'load', out: ref, input: input.name })
  return w.draft(`load ${input.name}`, 'load')
}

/** One microbatch's count, added to the step's. */
function countTokens(s: ShardedMesh, model: Model): { segment: SegmentDraft; layout: Layout } {
  const { graph } = model.blocks[model.blocks.length - 1]
  const node = graph.nodes.find(({ outs }) => outs[0] === graph.count)!
  const input = graph.values[node.ins[0]]
  if (input.source.kind !== 'input') throw new Error(`the loss of ${model.name} must count elements of a data input`)
  const w = new SegmentWriter(s)
  const layout = canonical(s, input.dims, 'input')
  const { ref } = w.given('input', input, layout, dataSlot(input.source.name))
  const dims = input.dims.map(dim => dim.name)
  const elected = elect(
    s,
    shardingOf(node.op, [input.dims], [[]]),
    [{ dims, layout, param: false }],
    [{ dims: [], layout: whole, param: false }],
  )
  const one = w.make('one', scalar('counted'), elected.outs[0], 'workspace')
  const total = w.given('count', scalar('count'), elected.outs[0], place('count'))
  w.emit({ ...node.op, ins: [ref], outs: [one.ref] })
  w.emit({ kind: 'accumulate', ins: [one.ref], outs: [total.ref] })
  return { segment: w.draft('count', 'count'), layout: elected.outs[0] }
}

/** The sum over the ranks that hold addends: along partial axes, then over the pipeline coordinates that share the loss. */
function sumUp(s: ShardedMesh, name: ResultName, layout: Layout, stages?: readonly number[]): SegmentDraft[] {
  const w = new SegmentWriter(s)
  const axes = partialAxes(layout)
  let version = w.given(name, scalar(name), layout, place(name))
  if (axes.length > 0) version = w.reduceInPlace(name, version, whole, { axes })
  if (stages) version = w.reduceInPlace(name, version, whole, { axes: ['pp'], stages })
  const segment = w.draft(`sum ${name}`, 'reduce')
  return segment.instrs.length > 0 ? [segment] : []
}
