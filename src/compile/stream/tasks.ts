/**
 * The tasks of a stream: a stage is a run of blocks; forward calls them in order, backward in reverse. What a call works
 * on is found by name: the same parameters in every microbatch, the carry where the block before left it.
 */
import type { Role, RoleName, Segment } from '../../ir/index.js'
import { inputOf } from '../../model/index.js'
import { departures, type FlightEvent, type Task } from '../../schedule/index.js'
import type { PhaseName } from '../blocks.js'
import { gathersOnce, isGathered } from '../data.js'
import { type BlockCall, BoundaryMoves } from './boundaries.js'
import { carryFrame, gradientFrame } from './carries.js'
import { placed, type StreamContext } from './context.js'
import { fly } from './flights.js'
import { frameNames, onceFrame, unplayed } from './frames.js'

export class BlockCalls {
  readonly #context: StreamContext
  readonly #bindings = new Map<string, readonly (number | undefined)[]>()
  /** How many ranks it plays: microbatches are dealt to them in turn. */
  readonly #ranks: number
  /** Calls made so far: flights are planned around them. */
  #calls = 0
  /** Blocks whose parameters have been coded. */
  readonly #coded = new Set<number>()
  /** Flights of the whole step that are ready to leave. */
  readonly #ready: FlightEvent[] = []
  readonly #boundaries: BoundaryMoves

  constructor(context: StreamContext) {
    this.#context = context
    this.#ranks = Math.max(...context.held.map(({ layouts }) => layouts.dealt?.turns.length ?? 1), 1)
    this.#boundaries = new BoundaryMoves(
      context,
      context.tasks.flatMap(task => this.#callsOf(task)),
    )
  }

  /** Calls that a task makes: of its blocks, those that have anything to do. */
  #callsOf({ kind, stage, microbatch }: Task): BlockCall[] {
    const blocks = this.#context.blocks[stage]
    return (kind === 'F' ? blocks : blocks.toReversed())
      .filter(block => this.#segmentOf(kind, block).instrs.length > 0)
      .map(block => ({ phase: kind, block, microbatch }))
  }

  #segmentOf(phase: PhaseName, block: number): Segment {
    const { compiled } = this.#context
    return placed(this.#context, compiled.blocks[compiled.model.blocks[block].kind].segments[phase]!)
  }

  /** Another stage waits for what a task sends, and nobody for the sums of the step: those leave behind it. */
  run({ kind, stage, microbatch }: Task, sends: boolean): void {
    const blocks = this.#context.blocks[stage]
    const ordered = kind === 'F' ? blocks : blocks.toReversed()
    for (const block of ordered) {
      this.#call(kind, block, microbatch, block === ordered.at(-1))
      if (!sends) this.depart()
    }
  }

  #call(phase: PhaseName, block: number, microbatch: number, last: boolean): void {
    const { out, flights } = this.#context
    const segment = this.#segmentOf(phase, block)
    if (segment.instrs.length === 0) return
    const call = this.#calls++
    fly(this.#context, flights.plan.before[call])
    if (phase === 'F' && !this.#coded.has(block)) this.#code(block)
    this.#boundaries.before(call)
    const lasting = this.#lasting(segment, block, microbatch)
    const frames = segment.roles.map((role, i) => lasting[i] ?? this.#passing(role, { phase, block, microbatch, call }))
    out.bound(segment, { block, microbatch }, frames)
    this.#boundaries.after(call)
    const { now, later } = departures(flights.plan.after[call], last || this.#ready.length > 0)
    fly(this.#context, now)
    this.#ready.push(...later)
  }

  /** Before its first forward: its parameters are there then. */
  #code(block: number): void {
    const { compiled, out } = this.#context
    this.#coded.add(block)
    const { codes } = compiled.blocks[compiled.model.blocks[block].kind]
    if (codes.instrs.length === 0) return
    const segment = placed(this.#context, codes)
    out.bound(segment, { block, microbatch: -1 }, this.#lasting(segment, block, 0))
  }

  /** What the task sends has left: so does what is ready. */
  depart(): void {
    fly(this.#context, this.#ready.splice(0))
  }

  /** Roles played by the same frame in every microbatch, or in every one of one rank that is played. */
  #lasting(segment: Segment, block: number, microbatch: number): readonly (number | undefined)[] {
    const addendOf = (param: string) => {
      const { turns = [0] } = this.#context.paramOf(param).layouts.dealt ?? {}
      return turns[microbatch % turns.length]
    }
    const key = `${segment.name}@${block}.${microbatch % this.#ranks}`
    const known = this.#bindings.get(key)
    if (known) return known
    const { params } = this.#context.compiled.model.blocks[block]
    const bindings = this.#context.out.bindings(segment, role => {
      if (role.is === 'param') return lastingParam(this.#context, params[role.of!])
      if (role.is === 'coded') return frameNames.coded(block)
      if (role.is === 'grad') return frameNames.addend(params[role.of!], addendOf(params[role.of!]))
      return ['result', 'scalar', 'named'].includes(role.is) ? onceFrame(role) : undefined
    })
    this.#bindings.set(key, bindings)
    return bindings
  }

  /** Roles played by another frame in each call; undefined: scratch. */
  #passing(role: Role, at: At): number | undefined {
    const away = role.name.is === 'in' ? this.#boundaries.frameOf(role.name.of, at) : undefined
    const name = away ?? passingName(this.#context, role.name, at)
    return name === undefined ? undefined : this.#context.out.frame(name, role)
  }
}

interface At extends BlockCall {
  readonly call: number
}

/** The parameter's own frame, or the one it was gathered into for the step; undefined: it is gathered for each call. */
function lastingParam({ compiled, paramOf }: StreamContext, name: string): string | undefined {
  const param = paramOf(name)
  if (param.segments.kept.inside || !isGathered(compiled.plan)(param)) return frameNames.param(name)
  return gathersOnce(compiled.plan) ? frameNames.full(name) : undefined
}

function passingName(context: StreamContext, role: RoleName, { block, microbatch, call }: At): string | undefined {
  const paramOf = (local: string) => context.compiled.model.blocks[block].params[local]
  switch (role.is) {
    case 'param':
      return frameNames.full(paramOf(role.of!), context.flights.plan.fetched[call]!.call)
    case 'fresh':
      return frameNames.fresh(paramOf(role.of!), call)
    case 'in':
      return carryFrame(context, block, role.of, microbatch)
    case 'out':
      return frameNames.carry(role.of, block + 1, microbatch)
    case 'din':
      return gradientFrame(context, block + 1, role.of, microbatch)
    case 'dout':
      return frameNames.gradient(role.of, block, microbatch)
    case 'input':
      return frameNames.input(inputOf(context.compiled.model.blocks[block], role.of), microbatch)
    case 'keep':
    case 'hold':
      return frameNames.stash(role, block, microbatch)
    case 'scratch':
      return undefined
    default:
      return unplayed(role)
  }
}
