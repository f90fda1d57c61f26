/**
 * What begins a step: sums and gradients are cleared, data is loaded, what the loss is divided by is counted, and the
 * flights of parameters that are gathered once a step leave.
 */
import { type Block, inputOf } from '../../model/index.js'
import type { Task } from '../../schedule/index.js'
import type { CompiledParam } from '../compiled.js'
import type { SegmentDraft } from '../segment.js'
import { callOnce, callParam, once } from './calls.js'
import { placed, type StreamContext } from './context.js'
import { fly } from './flights.js'
import { frameNames, onceFrame } from './frames.js'

export function begin(context: StreamContext): void {
  const { held } = context
  callOnce(context, clearing(context))
  for (const param of held) clear(context, param)
  load(context)
  count(context)
  fly(context, context.flights.plan.begin)
}

function clear(context: StreamContext, param: CompiledParam): void {
  const { spec, segments, layouts } = param
  const { begin } = segments
  if (!begin) return // nothing is accumulated: the gradient is written at once, or there is none
  callParam(context, param, begin)
  for (let rank = 1; rank < (layouts.fresh ? 0 : (layouts.dealt?.addends ?? 0)); rank++)
    context.out.call(placed(context, begin), { ...once, param: spec.name }, () => frameNames.addend(spec.name, rank))
}

const clearing = ({ compiled, results }: StreamContext): SegmentDraft[] =>
  results.map(name => compiled.once.clear[name]!)

function load(context: StreamContext): void {
  const { compiled, out } = context
  for (const [name, microbatch] of dataOf(context))
    out.call(placed(context, compiled.once.loads[name]), { ...once, microbatch }, () =>
      frameNames.input(name, microbatch),
    )
}

/** Every (input, microbatch) that some block of this stream reads. */
function dataOf({ compiled: { model, stageOf }, tasks }: StreamContext): [string, number][] {
  return model.inputs.flatMap(({ name }) => {
    const reads = (block: Block) =>
      block.graph.values.some(({ source }) => source.kind === 'input' && inputOf(block, source.name) === name)
    const stages = new Set(model.blocks.flatMap((block, i) => (reads(block) ? [stageOf[i]] : [])))
    const microbatches = new Set([...stages].flatMap(stage => microbatchesOf(tasks, stage)))
    return [...microbatches].sort((a, b) => a - b).map(microbatch => [name, microbatch] as [string, number])
  })
}

function count(context: StreamContext): void {
  const { compiled, holdsLoss, tasks, out } = context
  if (!holdsLoss) return
  for (const microbatch of microbatchesOf(tasks, compiled.stageOf.at(-1)!))
    out.call(placed(context, compiled.once.count), { ...once, microbatch }, role =>
      role.is === 'input' ? frameNames.input(role.of, microbatch) : onceFrame(role),
    )
  callOnce(context, compiled.once.sumCount)
  callOnce(context, compiled.once.divisor)
}

const microbatchesOf = (tasks: readonly Task[], stage: number): number[] =>
  tasks.filter(task => task.kind === 'F' && task.stage === stage).map(task => task.microbatch)
