/**
 * *agree*: the layout in which blocks leave each parameter's gradient. It is the layout the gradient is produced in; where
 * several segments make it (tied weights, schedules that have both B and W) the first one's if the others can be brought
 * to it, else the one that all can be brought to: the layout to compute with, partial over the axes along which there are copies.
 */
import { flatAxes, type Layout, sameLayout } from '../base/index.js'
import type { Block } from '../model/index.js'
import { type BlockContext, type BlockDrafts, draftBlock, type ProducedGradient } from './blocks.js'
import { type ByKind, eachKind, evaluates, type Facts, type ParamLayouts } from './compiled.js'

/** Layouts by class of parameters. */
type Gradients = ReadonlyMap<string, Layout>

/** What there is to agree on. A gradient that one segment alone makes is not among it, and stays as produced. */
export function agree(facts: Facts, context: BlockContext): Gradients {
  const { layouts } = facts
  const { classes } = context
  if (evaluates(facts)) return new Map()
  const param = new Map([...classes].map(([name, of]) => [of, layouts.get(name)!]))
  const produced = contested(facts, context)
  const trained = [...produced].filter(([, made]) => made.length > 0)
  return new Map(trained.map(([of, made]) => [of, agreed(made, param.get(of)!)]))
}

/** The layouts gradients are accumulated in: as agreed, else as the only segment that makes one produces it. */
export function settled(blocks: ByKind<BlockDrafts>, agreements: Gradients): Gradients {
  const produced = Object.values(blocks).flatMap(block => block.produced)
  return new Map([...produced.map(({ of, layout }) => [of, layout] as const), ...agreements])
}

/** The layouts of gradients that several segments make, found by drafting the blocks concerned. */
function contested({ model }: Facts, context: BlockContext): Map<string, Layout[]> {
  const { classes, phases } = context
  const classesIn = ({ params }: Block) => Object.values(params).map(name => classes.get(name)!)
  const makers = Object.values(eachKind(model, classesIn)).flat()
  const twice = new Set(phases.includes('B') && phases.includes('I') ? makers : repeated(makers))
  const made = eachKind(model, (block): readonly ProducedGradient[] =>
    classesIn(block).some(of => twice.has(of)) ? draftBlock(block, context).produced : [],
  )
  const found = new Map([...twice].map(of => [of, [] as Layout[]]))
  for (const { of, layout } of Object.values(made).flat()) found.get(of)?.push(layout)
  return found
}

const repeated = (list: readonly string[]): string[] => list.filter((item, i) => list.indexOf(item) !== i)

function agreed([first, ...others]: readonly Layout[], { compute, storage }: ParamLayouts): Layout {
  const reaches = (from: Layout) =>
    sameLayout(first, from) || Object.keys(first.partial).every(axis => axis in from.partial)
  if (others.every(reaches)) return first
  return { ...compute, partial: Object.fromEntries(flatAxes(storage).map(axis => [axis, 'sum'])) }
}
