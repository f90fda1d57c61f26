/**
 * *agree*: the layout in which each parameter's gradient is accumulated. Under ZeRO 2 and 3 that is its storage layout,
 * reached by every microbatch. Otherwise it is the layout the gradient is produced in; where several segments make it (tied
 * weights, schedules that have both B and W) the first one's if the others can be brought to it, else the one that
 * all can be brought to: the layout to compute with, partial over the data axes.
 */
import { type Layout, sameLayout } from '../base/index.js'
import { type BlockContext, draftBlock, type ProducedGradient } from './blocks.js'
import { type ByKind, eachKind, evaluates, type Facts } from './compiled.js'
import { baseOf } from './layouts.js'
import { classesOf } from './params.js'

/** By class of parameters; empty where nothing is trained. */
export function agree(facts: Facts, context: BlockContext): Map<string, Layout> {
  const { model, plan, layouts } = facts
  if (evaluates(facts)) return new Map()
  const classes = classesOf(model)
  if (plan.zero >= 2 && plan.reduce === 'microbatch')
    return new Map([...classes].map(([name, of]) => [of, layouts.get(name)!.storage]))
  const computed = new Map([...classes].map(([name, of]) => [of, layouts.get(name)!.compute]))
  const produced = producedGradients(facts, context)
  return new Map([...produced].map(([of, made]) => [of, agreed(facts, made, computed.get(of)!)]))
}

/** What each class's gradient looks like where it is made, found by sharding every block as if all agreed. */
function producedGradients(facts: Facts, context: BlockContext): Map<string, Layout[]> {
  const made: ByKind<readonly ProducedGradient[]> = eachKind(facts.model, block => draftBlock(block, context).produced)
  const produced = new Map<string, Layout[]>()
  for (const { of, layout } of Object.values(made).flat()) produced.set(of, [...(produced.get(of) ?? []), layout])
  return produced
}

function agreed({ s }: Facts, [first, ...others]: readonly Layout[], compute: Layout): Layout {
  const reaches = (layout: Layout, from: Layout) =>
    sameLayout(layout, from) || Object.keys(layout.partial).every(axis => axis in from.partial)
  if (others.every(from => reaches(first, from))) return first
  const data = s.axes.filter(axis => baseOf(axis) !== 'tp')
  return { ...compute, partial: Object.fromEntries(data.map(axis => [axis, 'sum'])) }
}
