/**
 * One rank at work: a program counter over the steps of its stream and the instructions of the segment it calls.
 * It runs until it must wait for others, and can say what for.
 */
import { type Coordinates, coordinatesOf, type Dim, elementsOf, indexAlong, type Rank } from '../../base/index.js'
import type { Buffer, Call, Collective, Compute, Instr, InstrOf, Program, Ref, Step, Stream } from '../../ir/index.js'
import { perform } from './collective.js'
import { type Blocked, RunError, type Where } from './errors.js'
import type { Moment } from './kernel.js'
import { Memory, type Precision } from './memory.js'
import { finishMessage, type Mail, type Meeting, type Meetings, type Message, membersOf, peerOf } from './rendezvous.js'
import { Prepared, Seat } from './segment.js'
import { indexOf, type Shape } from './tensor.js'

/** The data of one training step. */
export interface StepData {
  /** An input's whole global batch, row-major over its dims; microbatch k holds the samples from k times its size. */
  inputs(name: string): ArrayLike<number>
  readonly lr: number
  /** Counts from 0. */
  readonly step: number
}

/** An instruction that has just been done. */
export interface Observation {
  readonly rank: Rank
  readonly call: Call
  /** Index into the stream's steps. */
  readonly step: number
  readonly instr: Instr
  /** A copy of what a buffer of the segment holds now. */
  read(ref: Ref): Float64Array
}

export interface Options {
  readonly seed: number
  readonly precision?: Precision
  readonly observe?: (done: Observation) => void
}

/** The gradient an optimizer instruction was given: its buffer, and what each rank held. */
export interface Captured {
  readonly buffer: Buffer
  readonly parts: Map<Rank, Float64Array>
}

/** What all ranks of a machine share. */
export interface World {
  readonly program: Program
  readonly options: Options
  readonly prepared: Map<string, Prepared>
  readonly gradients: Map<string, Captured>
  meetings: Meetings
  mail: Mail
  data: StepData
}

/** Does an instruction; false: it must wait. */
type Action = (moment: Moment, call: Call) => boolean

interface Open {
  readonly meeting: Meeting
  text(): string
  finish(): void
}

export class Actor {
  readonly rank: Rank
  readonly memory: Memory
  private readonly world: World
  readonly at: Coordinates
  private readonly stream: Stream
  private readonly seats = new Map<string, { seat: Seat; actions: Action[] }>()
  private readonly collectives = new Map<Ref, Open>()
  private readonly messages = new Map<string, { message: Message; side: 'from' | 'to' }>()
  private moment: Moment
  private step = 0
  /** -1 before a call has been entered. */
  private instr = -1

  constructor(world: World, rank: Rank) {
    const { mesh, streams } = world.program
    this.world = world
    this.rank = rank
    this.at = coordinatesOf(mesh, rank)
    this.stream = streams[this.at.pp ?? 0]
    this.moment = { seed: world.options.seed, step: 0, block: '', at: this.at }
    this.memory = this.guard(() => new Memory(this.stream, world.options.precision ?? 'f64'))
  }

  get done(): boolean {
    return this.step === this.stream.steps.length
  }

  begin(): void {
    this.step = 0
    this.instr = -1
    this.messages.clear()
  }

  /** Runs until it is done or must wait; says whether it got anywhere. */
  advance(): boolean {
    return this.guard(() => {
      const [step, instr] = [this.step, this.instr]
      while (!this.done && this.perform(this.stream.steps[this.step])) {
        this.step++
        this.instr = -1
      }
      return this.step !== step || this.instr !== instr
    })
  }

  /** Everything that was started must have been waited for. */
  finish(): void {
    for (const [tag] of this.messages)
      throw new RunError(
        this.where(),
        `the ${this.messages.get(tag)!.side === 'from' ? 'send' : 'recv'} ${tag} was never waited for`,
      )
  }

  blocked(): Blocked {
    return { ...this.where(), waitsFor: this.waitsFor() }
  }

  private perform(step: Step): boolean {
    switch (step.kind) {
      case 'alloc':
        this.memory.alloc(step.frame)
        return true
      case 'free':
        this.memory.free(step.frame)
        return true
      case 'call':
        return this.call(step)
      case 'send':
      case 'recv':
        this.post(step)
        return true
      case 'wait':
        return this.receive(step.tag)
    }
  }

  private call(call: Call): boolean {
    const { seat, actions } = this.seat(call.segment)
    if (this.instr < 0) {
      const block = this.world.program.blocks[call.block]?.name ?? ''
      this.moment = { ...this.moment, step: this.world.data.step, block }
      seat.enter(call, this.memory)
      this.instr = 0
    }
    while (this.instr < actions.length) {
      if (!actions[this.instr](this.moment, call)) return false
      if (this.world.options.observe) this.observe(call, seat)
      this.instr++
    }
    for (const { text } of this.collectives.values()) throw new Error(`${text()} was never waited for`)
    return true
  }

  private observe(call: Call, seat: Seat): void {
    const read = (ref: Ref) => {
      const at = seat.place(ref).at
      return Float64Array.from(this.memory.cells.subarray(at, at + elementsOf(seat.prepared.shape(ref).dims)))
    }
    const instr = seat.prepared.segment.instrs[this.instr]
    this.world.options.observe?.({ rank: this.rank, call, step: this.step, instr, read })
  }

  private seat(name: string): { seat: Seat; actions: Action[] } {
    const known = this.seats.get(name)
    if (known) return known
    const { program, prepared } = this.world
    const segment = program.segments[name]
    if (!segment) throw new Error(`there is no segment ${name}`)
    const ready = prepared.get(name) ?? new Prepared(program, segment)
    prepared.set(name, ready)
    const seat = new Seat(program, ready, this.at)
    const made = { seat, actions: segment.instrs.map(instr => this.actionOf(seat, instr)) }
    this.seats.set(name, made)
    return made
  }

  private actionOf(seat: Seat, instr: Instr): Action {
    try {
      return this.action(seat, instr)
    } catch (error) {
      throw new Error(`${showInstr(instr)}: ${(error as Error).message}`, { cause: error })
    }
  }

  private action(seat: Seat, instr: Instr): Action {
    switch (instr.kind) {
      case 'all-reduce':
      case 'all-gather':
      case 'reduce-scatter':
      case 'all-to-all':
        return this.collective(seat, instr)
      case 'wait':
        return () => this.arrive(instr.on)
      case 'slice':
        return this.slice(seat, instr)
      case 'load':
        return this.load(seat, instr)
      default:
        return this.compute(seat, instr)
    }
  }

  private compute(seat: Seat, instr: Compute): Action {
    const kernel = seat.prepared.kernel(instr)
    const [ins, outs] = [instr.ins.map(ref => seat.place(ref)), instr.outs.map(ref => seat.place(ref))]
    const { cells } = this.memory
    const run: Action = moment => {
      kernel(cells, ins, outs, moment)
      return true
    }
    if (instr.kind !== 'adamw' && instr.kind !== 'sgd') return run
    return (moment, call) => {
      this.capture(seat, instr.ins[0], call)
      return run(moment, call)
    }
  }

  private capture(seat: Seat, ref: Ref, { param }: Call): void {
    if (param === undefined) return
    const buffer = seat.prepared.segment.buffers[ref]
    const at = seat.place(ref).at
    const captured = this.world.gradients.get(param) ?? { buffer, parts: new Map() }
    captured.parts.set(this.rank, Float64Array.from(this.memory.cells.subarray(at, at + elementsOf(buffer.dims))))
    this.world.gradients.set(param, captured)
  }

  private slice(seat: Seat, instr: InstrOf<'slice'>): Action {
    const move = seat.prepared.slice(instr)
    const part = indexAlong(this.world.program.mesh, instr.axes, this.at)
    const [from, to] = [seat.place(instr.in), seat.place(instr.out)]
    const { cells } = this.memory
    return () => {
      perform(move, [cells.subarray(from.at)], part, cells, to.at)
      return true
    }
  }

  private load(seat: Seat, instr: InstrOf<'load'>): Action {
    const [to, shape] = [seat.place(instr.out), seat.prepared.shape(instr.out)]
    const { cells } = this.memory
    if (instr.input === 'lr' || instr.input === 'step') {
      const scalar = instr.input
      return () => {
        cells[to.at] = this.world.data[scalar]
        return true
      }
    }
    const whole = wholeInput(this.world.program, instr.input)
    const table = seat.prepared.load(instr, whole)
    return () => {
      const values = this.world.data.inputs(instr.input)
      if (values.length !== elementsOf(whole))
        throw new Error(`input ${instr.input} has ${values.length} values, not ${elementsOf(whole)}`)
      const first = indexOf(shape.dims, to.origin, whole)
      for (let i = 0; i < table.length; i++) cells[to.at + i] = values[first + table[i]]
      return true
    }
  }

  private collective(seat: Seat, instr: Collective): Action {
    const members = membersOf(this.world.program.mesh, this.rank, instr.group)
    const move = seat.prepared.move(instr, members.length)
    const index = members.indexOf(this.rank)
    const [source, out] = [seat.prepared.shape(instr.in), seat.prepared.shape(instr.out)]
    const [from, to] = [seat.place(instr.in), seat.place(instr.out)]
    const [size, room] = [elementsOf(source.dims), elementsOf(out.dims)]
    const meaning = meaningOf(instr, source, out, members)
    const { cells } = this.memory
    return () => {
      const [step, instrIndex] = [this.step, this.instr]
      const text = () => this.textOf(step, instrIndex)
      if (this.collectives.has(instr.out)) throw new Error(`${instr.out} already awaits a collective`)
      const operand = cells.subarray(from.at, from.at + size)
      // In place, the poison of the result would eat the operand.
      const overlaps = from.at < to.at + room && to.at < from.at + size
      const arrival = { rank: this.rank, members, meaning, text, operand: overlaps ? operand.slice() : operand }
      const meeting = this.world.meetings.join(arrival)
      cells.fill(NaN, to.at, to.at + room)
      const finish = () => perform(move, meeting.operands(), index, cells, to.at)
      this.collectives.set(instr.out, { meeting, text, finish })
      return true
    }
  }

  /** The wait of a collective. */
  private arrive(ref: Ref): boolean {
    const open = this.collectives.get(ref)
    if (!open) throw new Error(`no collective that writes ${ref} has started`)
    if (!open.meeting.ready) return false
    open.finish()
    this.collectives.delete(ref)
    return true
  }

  private post({ kind, frame, peer, tag }: Extract<Step, { kind: 'send' | 'recv' }>): void {
    const other = peerOf(this.world.program.mesh, this.rank, peer)
    const view = this.memory.view(frame)
    if (this.messages.has(tag)) throw new Error(`tag ${tag} is already under way`)
    const message =
      kind === 'send'
        ? this.world.mail.start('from', this.rank, other, tag, view)
        : this.world.mail.start('to', other, this.rank, tag, view)
    if (kind === 'recv') this.memory.poison(frame)
    this.messages.set(tag, { message, side: kind === 'send' ? 'from' : 'to' })
  }

  /** The wait of a send or a recv. */
  private receive(tag: string): boolean {
    const open = this.messages.get(tag)
    if (!open) throw new Error(`no send or recv ${tag} has started`)
    if (!finishMessage(open.message, open.side)) return false
    this.messages.delete(tag)
    return true
  }

  private waitsFor(): string {
    const step = this.stream.steps[this.step]
    if (step.kind === 'wait') {
      const { message, side } = this.messages.get(step.tag)!
      return side === 'from' ? `the recv of rank ${message.target}` : `the send of rank ${message.source}`
    }
    const instr = step.kind === 'call' ? this.world.program.segments[step.segment].instrs[this.instr] : undefined
    const open = instr?.kind === 'wait' ? this.collectives.get(instr.on) : undefined
    return open ? `ranks ${open.meeting.missing.join(' ')} of ${open.meeting.members.join(' ')} to start` : 'nothing'
  }

  private where(): Where {
    return { rank: this.rank, step: this.step, instr: this.instr, text: this.textOf(this.step, this.instr) }
  }

  private textOf(step: number, instr: number): string {
    const at = this.stream.steps[step]
    if (!at) return 'the end'
    const segment = at.kind === 'call' ? this.world.program.segments[at.segment] : undefined
    const inner = segment?.instrs[instr]
    return inner ? `${showStep(at)}: ${showInstr(inner)}` : showStep(at)
  }

  private guard<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      if (error instanceof RunError) throw error
      throw new RunError(this.where(), (error as Error).message, { cause: error })
    }
  }
}

/** An input over the whole global batch. */
export function wholeInput(program: Program, name: string): Dim[] {
  const input = program.inputs.find(input => input.name === name)
  if (!input) throw new Error(`there is no input ${name}`)
  return input.dims.map(dim => (dim.name === 'batch' ? { ...dim, size: dim.size * program.microbatches } : dim))
}

const showDims = (dims: readonly Dim[]) => `[${dims.map(dim => `${dim.name} ${dim.size}`).join(', ')}]`

function meaningOf(instr: Collective, source: Shape, out: Shape, members: readonly Rank[]): string {
  const { kind, in: _, out: __, group: ___, ...how } = instr
  return `${kind} ${Object.values(how).join(' ')} ${showDims(source.dims)} -> ${showDims(out.dims)} over ${members.join(' ')}`
}

function showStep(step: Step): string {
  if (step.kind !== 'call') return `${step.kind} ${'tag' in step ? step.tag : `frame ${step.frame}`}`
  return `call ${step.segment}${step.microbatch < 0 ? '' : ` microbatch ${step.microbatch}`}${step.param ? ` ${step.param}` : ''}`
}

function showInstr(instr: Instr): string {
  if ('ins' in instr) return `${instr.kind} ${instr.ins.join(' ')} -> ${instr.outs.join(' ')}`
  if (instr.kind === 'wait') return `wait ${instr.on}`
  if (instr.kind === 'load') return `load ${instr.input} -> ${instr.out}`
  return `${instr.kind} ${instr.in} -> ${instr.out}`
}
