/**
 * One rank at work: a program counter over the steps of its stream and the instructions of the segment it calls.
 * It runs until it must wait for others, and can say what for.
 */
import { type Coordinates, coordinatesOf, failureClause, type Rank, type Spoken, saidBy } from '../../base/index.js'
import { peerOf } from '../../geometry/index.js'
import type { Call, Ref, Step, Stream } from '../../ir/index.js'
import { showInstr, showStep } from '../text.js'
import { type BlockedRank, RunError, type Where, wentWrong } from './errors.js'
import { type Action, actionOf, type StartedCollective } from './instructions.js'
import type { Moment } from './kernel.js'
import { Memory } from './memory.js'
import { finishMessage, type Message } from './rendezvous.js'
import { PreparedSegment, Seat } from './segment.js'
import type { World } from './world.js'

/** A segment at this rank, and what to do for each of its instructions. */
interface Ready {
  readonly seat: Seat
  readonly actions: readonly Action[]
}

export class Actor {
  readonly rank: Rank
  readonly at: Coordinates
  readonly stream: Stream
  readonly memory: Memory
  readonly #world: World
  readonly #ready = new Map<string, Ready>()
  readonly #collectives = new Map<Ref, StartedCollective>()
  readonly #messages = new Map<string, { message: Message; side: 'from' | 'to' }>()
  /** Collectives of calls that only start, by tag. */
  readonly #calls = new Map<string, readonly StartedCollective[]>()
  #moment: Moment
  #step = 0
  /** -1 before a call has been entered. */
  #instr = -1

  constructor(world: World, rank: Rank) {
    const { program, options } = world
    this.#world = world
    this.rank = rank
    this.at = coordinatesOf(program.mesh, rank)
    this.stream = program.streams[this.at.pp ?? 0]
    this.#moment = { seed: options.seed, step: 0, block: '', microbatch: -1, at: this.at }
    this.memory = this.#located(() => new Memory(this.stream, options.precision ?? 'f64', world.cellBytes))
  }

  get done(): boolean {
    return this.#step === this.stream.steps.length
  }

  begin(): void {
    this.#step = 0
    this.#instr = -1
  }

  /** Runs one step of its stream, or the part of it that need not wait; returns whether it got anywhere. */
  advance(): boolean {
    return this.#located(() => {
      const [step, instr] = [this.#step, this.#instr]
      if (this.done) return false
      if (this.#perform(this.stream.steps[step])) {
        this.#step++
        this.#instr = -1
      }
      return this.#step !== step || this.#instr !== instr
    })
  }

  /** Everything that was started must have been waited for. */
  finish(): void {
    for (const [tag, { side }] of this.#messages)
      throw wentWrong(this.#where(), `the ${side === 'from' ? 'send' : 'recv'} ${tag} was never waited for`)
    for (const tag of this.#calls.keys()) throw wentWrong(this.#where(), `the call ${tag} was never waited for`)
  }

  blocked(): BlockedRank {
    return { ...this.#where(), waitsFor: this.#waitsFor() }
  }

  /** False: it must wait. */
  #perform(step: Step): boolean {
    switch (step.kind) {
      case 'alloc':
        this.memory.alloc(step.frame)
        return true
      case 'free':
        this.memory.free(step.frame)
        return true
      case 'call':
        return this.#call(step)
      case 'send':
      case 'recv':
        this.#post(step)
        return true
      case 'wait':
        return this.#collect(step.tag)
    }
  }

  #call(call: Call): boolean {
    const { seat, actions } = this.#readyFor(call.segment)
    if (this.#instr < 0) this.#enter(call, seat)
    while (this.#instr < actions.length) {
      if (!actions[this.#instr](this.#moment, call)) return false
      if (this.#world.options.observe) this.#observe(call, seat)
      this.#instr++
    }
    if (call.tag !== undefined) this.#keep(call.tag)
    for (const { text } of this.#collectives.values()) throw new Error(`${text()} was never waited for`)
    return true
  }

  /** What a call has started is finished by the wait for its tag. */
  #keep(tag: string): void {
    if (this.#calls.has(tag) || this.#messages.has(tag)) throw new Error(`tag ${tag} is already under way`)
    this.#calls.set(tag, [...this.#collectives.values()])
    this.#collectives.clear()
  }

  #enter(call: Call, seat: Seat): void {
    const block = this.#world.program.blocks[call.block]?.name ?? ''
    const { seed, at } = this.#moment
    this.#moment = { seed, step: this.#world.data.step, block, microbatch: call.microbatch, at }
    seat.enter(call, this.memory)
    this.#instr = 0
  }

  #observe(call: Call, seat: Seat): void {
    const instr = seat.prepared.segment.instrs[this.#instr]
    const read = (ref: Ref) => seat.read(ref, this.memory.cells)
    this.#world.options.observe?.({ rank: this.rank, call, step: this.#step, instr, read })
  }

  #readyFor(name: string): Ready {
    const known = this.#ready.get(name)
    if (known) return known
    const { program, prepared } = this.#world
    const segment = program.segments[name]
    if (!segment) throw new Error(`there is no segment ${name}`)
    const shared = prepared.get(name) ?? new PreparedSegment(program, segment)
    prepared.set(name, shared)
    const made = this.#prepare(new Seat(program, shared, this.at, this.memory))
    this.#ready.set(name, made)
    return made
  }

  #prepare(seat: Seat): Ready {
    const { rank, at, memory } = this
    const here = () => {
      const [step, instr] = [this.#step, this.#instr]
      return () => this.#textOf(step, instr)
    }
    const station = { world: this.#world, rank, at, memory, seat, started: this.#collectives, here }
    const actions = seat.prepared.segment.instrs.map((instr, index) => {
      this.#instr = index // so that an error says which instruction could not be made ready
      return actionOf(instr, station)
    })
    this.#instr = -1
    return { seat, actions }
  }

  /** Starts a send or a recv. What is to be received is NaN until its wait. */
  #post({ kind, frame, peer, tag }: Extract<Step, { kind: 'send' | 'recv' }>): void {
    const other = peerOf(this.#world.program.mesh, this.rank, peer)
    const [side, source, target] =
      kind === 'send' ? (['from', this.rank, other] as const) : (['to', other, this.rank] as const)
    if (this.#messages.has(tag) || this.#calls.has(tag)) throw new Error(`tag ${tag} is already under way`)
    const message = this.#world.mail.start({ source, target, tag }, side, this.memory.view(frame))
    if (kind === 'recv') this.memory.poison(frame)
    this.#messages.set(tag, { message, side })
  }

  /** The wait of a send, a recv or a call. */
  #collect(tag: string): boolean {
    const started = this.#calls.get(tag)
    if (started) {
      if (!started.every(({ collective }) => collective.ready)) return false
      for (const { finish } of started) finish()
      return this.#calls.delete(tag)
    }
    const open = this.#messages.get(tag)
    if (!open) throw new Error(`no send, recv or call ${tag} has started`)
    return finishMessage(open.message, open.side) && this.#messages.delete(tag)
  }

  #waitsFor(): Spoken {
    const step = this.stream.steps[this.#step]
    const started = step.kind === 'wait' ? this.#calls.get(step.tag) : undefined
    const late = started?.find(({ collective }) => !collective.ready)
    if (late) return missing(late)
    if (step.kind === 'wait') {
      const { message, side } = this.#messages.get(step.tag)!
      return side === 'from'
        ? failureClause('.waits/recv', { rank: message.target })
        : failureClause('.waits/send', { rank: message.source })
    }
    const instr = step.kind === 'call' ? this.#world.program.segments[step.segment].instrs[this.#instr] : undefined
    const open = instr?.kind === 'wait' ? this.#collectives.get(instr.on) : undefined
    return open ? missing(open) : failureClause('.waits/nothing')
  }

  #where(): Where {
    return { rank: this.rank, step: this.#step, instr: this.#instr, text: this.#textOf(this.#step, this.#instr) }
  }

  #textOf(index: number, instr: number): string {
    const step = this.stream.steps[index]
    if (!step) return 'the end'
    const inner = step.kind === 'call' ? this.#world.program.segments[step.segment]?.instrs[instr] : undefined
    return inner ? `${showStep(step)}: ${showInstr(inner)}` : showStep(step)
  }

  /** Errors from within say where they happened. */
  #located<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      if (error instanceof RunError) throw error
      throw wentWrong(this.#where(), saidBy(error), { cause: error })
    }
  }
}

const missing = ({ collective }: StartedCollective): Spoken =>
  failureClause('.waits/start', { missing: collective.missing.join(' '), members: collective.members.join(' ') })
