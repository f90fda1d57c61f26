/**
 * Where a carry lies: in the frame of the block that made it, however many blocks ago, as far as the blocks between hand
 * it through and run on this stream; else in the frame it was received into. Gradients likewise, from the other end.
 */
import { tagOf } from '../clocks.js'
import type { StreamContext } from './context.js'
import { frameNames } from './frames.js'

/** The frame of a carry that enters a block. */
export function carryFrame(context: StreamContext, block: number, name: string, microbatch: number): string {
  const { stageOf } = context.compiled
  const local =
    block > 0 && (stageOf[block - 1] === stageOf[block] || !crosses(context, 'SEND_F', stageOf[block - 1], microbatch))
  return local ? leavingCarry(context, block, name, microbatch) : frameNames.carry(name, block, microbatch)
}

/** The carry as the block before leaves it: made by it, or handed through. */
export function leavingCarry(context: StreamContext, block: number, name: string, microbatch: number): string {
  const { blocks, model } = context.compiled
  const through = blocks[model.blocks[block - 1].kind].through[name]
  return through === undefined
    ? frameNames.carry(name, block, microbatch)
    : carryFrame(context, block - 1, through, microbatch)
}

/** The frame of the gradient of what enters a block, as the block before reads it. */
export function gradientFrame(context: StreamContext, block: number, name: string, microbatch: number): string {
  const { stageOf } = context.compiled
  const local = stageOf[block] === stageOf[block - 1] || !crosses(context, 'SEND_B', stageOf[block], microbatch)
  return local ? leavingGradient(context, block, name, microbatch) : frameNames.gradient(name, block, microbatch)
}

/** The gradient as the block leaves it: made by it, or handed through. */
export function leavingGradient(context: StreamContext, block: number, name: string, microbatch: number): string {
  const { blocks, model } = context.compiled
  const through = blocks[model.blocks[block].kind].dthrough[name]
  return through === undefined
    ? frameNames.gradient(name, block, microbatch)
    : gradientFrame(context, block + 1, through, microbatch)
}

const crosses = ({ messages }: StreamContext, kind: 'SEND_F' | 'SEND_B', stage: number, microbatch: number): boolean =>
  messages.has(tagOf({ kind, stage, microbatch }))
