/**
 * When carries leave for the host, or the disk, and come back: out behind the forward call that reads them last, waited for behind the call after;
 * back some calls before the backward call that needs them. What is needed again at once stays.
 */
import type { RoleName } from '../../ir/index.js'
import type { PhaseName } from '../blocks.js'
import type { BoundaryDrafts } from '../boundaries.js'
import { leavingCarry } from './carries.js'
import { placed, type StreamContext } from './context.js'
import { frameNames, unplayed } from './frames.js'

/** Calls between the start of a move back and the one that needs it. */
const ahead = 2

interface Carry {
  readonly block: number
  readonly microbatch: number
  readonly name: string
  readonly drafts: BoundaryDrafts
}

interface Event {
  readonly event: 'start' | 'wait'
  readonly way: 'out' | 'back'
  readonly carry: Carry
}

/** A call of a block, as a stream makes them one after the other. */
export interface BlockCall {
  readonly phase: PhaseName
  readonly block: number
  readonly microbatch: number
}

export class BoundaryMoves {
  readonly #context: StreamContext
  readonly #before = new Map<number, Event[]>()
  readonly #after = new Map<number, Event[]>()
  readonly #away = new Set<string>()

  constructor(context: StreamContext, calls: readonly BlockCall[]) {
    this.#context = context
    const forwards = new Map(calls.flatMap((call, i) => (call.phase === 'F' ? [[keyOf(call), i] as const] : [])))
    const backwards = new Map<string, number>()
    for (const [i, call] of calls.entries())
      if (call.phase !== 'F' && !backwards.has(keyOf(call))) backwards.set(keyOf(call), i)
    for (const [key, first] of forwards) {
      const needed = backwards.get(key)
      if (needed === undefined || needed - first < ahead + 2) continue
      for (const carry of this.#carriesOf(calls[first])) this.#plan(carry, first, needed)
    }
  }

  before = (call: number): void => this.#play(this.#before.get(call))
  after = (call: number): void => this.#play(this.#after.get(call))

  /** The frame in which a backward call finds a carry that was away. */
  frameOf(name: string, { phase, block, microbatch }: BlockCall): string | undefined {
    const back = frameNames.back(name, block, microbatch)
    return phase !== 'F' && this.#away.has(back) ? back : undefined
  }

  /** Those that the block before made, or that were received: what is handed through serves others, and stays. */
  #carriesOf({ block, microbatch }: BlockCall): Carry[] {
    const { boundaries, model } = this.#context.compiled
    const isOwn = (name: string) =>
      block > 0 && leavingCarry(this.#context, block, name, microbatch) === frameNames.carry(name, block, microbatch)
    return Object.entries(boundaries[model.blocks[block].kind] ?? {})
      .filter(([name]) => isOwn(name))
      .map(([name, drafts]) => ({ block, microbatch, name, drafts }))
  }

  #plan(carry: Carry, first: number, needed: number): void {
    this.#away.add(frameNames.back(carry.name, carry.block, carry.microbatch))
    add(this.#after, first, { event: 'start', way: 'out', carry })
    add(this.#after, first + 1, { event: 'wait', way: 'out', carry })
    add(this.#before, needed - ahead, { event: 'start', way: 'back', carry })
    add(this.#before, needed, { event: 'wait', way: 'back', carry })
  }

  #play(events: readonly Event[] = []): void {
    const { out } = this.#context
    for (const { event, way, carry } of events) {
      const { block, microbatch, name, drafts } = carry
      const tag = `${way} ${frameNames.carry(name, block, microbatch)}`
      const nameOf = ({ is }: RoleName) => {
        if (is !== 'in' && is !== 'away') return unplayed({ is: 'named', of: is })
        return way === 'back' && is === 'in'
          ? frameNames.back(name, block, microbatch)
          : frameNames.carry(name, block, microbatch)
      }
      if (event === 'wait') out.wait(tag)
      else out.call(placed(this.#context, drafts[way]), { block: -1, microbatch, tag }, nameOf)
    }
  }
}

const keyOf = ({ block, microbatch }: BlockCall): string => `${block}.${microbatch}`

function add(events: Map<number, Event[]>, at: number, event: Event): void {
  events.set(at, [...(events.get(at) ?? []), event])
}
