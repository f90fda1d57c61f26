/** The messages of a stream: one for each carry that crosses, in the order of the exports on both sides. */

import type { Task, Transfer } from '../../schedule/index.js'
import { needOf, tagOf } from '../clocks.js'
import { canonical } from '../layouts.js'
import { localBytes } from '../segment.js'
import { leavingCarry, leavingGradient } from './carries.js'
import type { StreamContext } from './context.js'
import { frameNames } from './frames.js'

/** A carry, or the gradient of one, and its bytes. */
type Crossing = readonly [carry: string, bytes: number]

export class Crossings {
  readonly #context: StreamContext
  /** Crossings by the block before which they happen. */
  readonly #known = new Map<number, readonly Crossing[]>()

  constructor(context: StreamContext) {
    this.#context = context
  }

  /** A carry is received into the frame the first block asks for and sent from the frame the last block filled. */
  start(transfer: Transfer): void {
    const { messages, out } = this.#context
    const { kind, microbatch, peer } = transfer
    const [frameOf, leaving] =
      kind === 'SEND_F' || kind === 'RECV_F' ? [frameNames.carry, leavingCarry] : [frameNames.gradient, leavingGradient]
    const block = messages.get(tagOf(transfer))!
    for (const [name, bytes] of this.#crossing(block)) {
      const tag = `${tagOf(transfer)} ${name}`
      if (kind === 'RECV_F' || kind === 'RECV_B') out.recv(frameOf(name, block, microbatch), bytes, peer, tag)
      else out.send(leaving(this.#context, block, name, microbatch), peer, tag)
    }
  }

  wait(tag: string): void {
    for (const [name] of this.#crossing(this.#context.messages.get(tag)!)) this.#context.out.wait(`${tag} ${name}`)
  }

  /** What is not among the messages is made on the stream itself. */
  waitForNeeds(task: Task): void {
    const need = needOf(task)
    if (need !== undefined && this.#context.messages.has(need)) this.wait(need)
  }

  #crossing(block: number): readonly Crossing[] {
    const { s, model } = this.#context.compiled
    const { graph } = model.blocks[block - 1]
    const crossing =
      this.#known.get(block) ??
      Object.entries(graph.exports).map(([name, id]): Crossing => {
        const value = graph.values[id]
        return [name, localBytes(s, value, canonical(s, value.dims, 'value'))]
      })
    this.#known.set(block, crossing)
    return crossing
  }
}
