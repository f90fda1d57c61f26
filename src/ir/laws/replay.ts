/**
 * All streams, played once on values instead of numbers: frames hold entries (a value, its type, its bytes),
 * calls take entries and leave entries, messages carry them, collectives between streams add them up.
 * One stream stands for all its ranks, whose places on the other axes are covered by the types.
 * It settles L6 and T4 (each call finds what it reads, as it was written), T5, P3 to P5, P8 to P11 and E1.
 */
import { finish, scalarEntries, stateEntries, type Work } from '../../base/index.js'
import { dtypeOfGradient, type Param, type Program, resultPlaces, type Stream } from '../program.js'
import { resultNames } from '../role.js'
import { type Act, resultA, resultB } from './acts.js'
import { Flows } from './buffers.js'
import {
  type CallFrame,
  combined,
  frameOf,
  type JoinedCollective,
  lastCall,
  placeIn,
  put,
  type StartedCall,
  sumIn,
  valueIn,
} from './call.js'
import { type Contents, fits, wipe } from './contents.js'
import { untouched } from './frozen.js'
import { heldAs, isStart, rounded, startOf, valueOfParam } from './kept.js'
import { type Finding, type Law, placeOf } from './law.js'
import { Ledger, stateAfter, type Update } from './ledger.js'
import type { Outcome, Result, Watch } from './outcome.js'
import { type Told, told } from './phrases.js'
import { type HeldType, type Ready, Shelf, type Slot } from './ready.js'
import { RowRoutes } from './rows.js'
import { Verdicts, valueOfScalar } from './scalars.js'
import { Stacks } from './stack-values.js'
import { hashValues, keyOf, mixA, mixB, nothing, plus, same, shareOf, type Value } from './value.js'

export const replay = (program: Program, flows?: Flows, watch?: Watch): Outcome =>
  finish(replaying(program, flows, watch))

export const replaying = (program: Program, flows = new Flows(program), watch?: Watch): Work<Outcome> =>
  new Replay(program, flows, watch).run()

/** A stream that need not wait for others pauses after so many steps, so that somebody who watches can stop it. */
const stepsBetweenPauses = 4096

class Replay {
  readonly #findings: Finding[] = []
  readonly #ledger = new Ledger()
  readonly #verdicts: Verdicts
  readonly #rows = new RowRoutes()
  readonly #stacks = new Stacks()
  readonly #shelf: Shelf
  readonly #memory: Contents[][]
  readonly #sent = new Map<string, Contents>()
  readonly #collectives = new Map<string, Map<number, Value>>()
  readonly #met = new Map<string, number>()
  readonly #params = new Map<number, Param>()
  /** Per stream: frames whose sum has been reduced over the ranks. */
  readonly #reduced: Set<number>[]
  #clock = 0
  readonly #program: Program
  readonly #watch: Watch | undefined

  constructor(program: Program, flows: Flows, watch?: Watch) {
    this.#program = program
    this.#watch = watch
    this.#verdicts = new Verdicts(program)
    this.#shelf = new Shelf(program, flows)
    this.#memory = program.streams.map(stream => stream.frames.map(() => new Map()))
    this.#reduced = program.streams.map(() => new Set())
    for (const param of program.params) this.#begin(param)
    for (const [name, { frames }] of scalarEntries(program.scalars))
      for (const [pipeline, frame] of resultPlaces(frames))
        this.#keep(pipeline, frame, valueOfScalar(name), this.#shelf.ofScalar())
  }

  *run(): Work<Outcome> {
    const steps = this.#program.streams.reduce((sum, stream) => sum + stream.steps.length, 0)
    let running = this.#program.streams.map((stream, pipeline) => this.#play(stream, pipeline))
    for (let before = -1; running.length > 0 && before < this.#clock; ) {
      before = this.#clock
      running = running.filter(stream => !stream.next().done)
      yield Math.min(1, this.#clock / steps)
    }
    for (const param of this.#program.params) this.#end(param)
    const results = this.#results()
    const left = (pipeline: number, frame: number) => this.#memory[pipeline][frame].get(0)
    const ends = [this.#ledger.findings(this.#program), this.#verdicts.findings(this.#program, left)]
    const findings = [...this.#findings, ...ends.flat(), ...untouched(this.#program, left)]
    return { findings, updates: this.#ledger.updates, moves: this.#verdicts.moves, results }
  }

  /** Parameters and their state are what the last step left. */
  #begin(param: Param): void {
    const { name, frames } = param
    const start = valueOfParam(name)
    this.#params.set(keyOf(start.a, start.b), param)
    for (const [pipeline, held] of Object.entries(frames)) {
      this.#keep(Number(pipeline), held.param, heldAs(param, start), this.#shelf.ofParam(param))
      for (const [state, frame] of stateEntries(held.states))
        this.#keep(Number(pipeline), frame, startOf(name, state), this.#shelf.ofState(param, state))
    }
  }

  /** What a frame holds when the step begins. */
  #keep(pipeline: number, frame: number, value: Value, lying: HeldType): void {
    const to = this.#program.streams[pipeline].frames[frame].bytes
    this.#memory[pipeline][frame].set(0, { ...value, ...lying, to, microbatch: -1 })
  }

  /** The updated parameter is back where it is kept, and so are its state and what it was rounded from. */
  #end(param: Param): void {
    for (const update of this.#ledger.updatesOf(param.name)) {
      const { pipeline, after } = update
      const held = param.frames[pipeline]
      if (!held) continue
      this.#left(update, held.param, heldAs(param, after.updated), this.#shelf.ofParam(param))
      for (const [state, frame] of stateEntries(held.states)) {
        const made = stateAfter(update, state, this.#memory[pipeline][frame].get(0))
        this.#left(update, frame, made, this.#shelf.ofState(param, state))
      }
      if (held.grad !== undefined) this.#summed(update, held.grad, param)
    }
  }

  /** Its frame holds the gradient that the update was given, in the dtype of gradients: wider, it would have lost its digits before. */
  #summed(update: Update, frame: number, param: Param): void {
    const entry = this.#memory[update.pipeline][frame].get(0)
    const given = entry && same(entry, update.grad)
    const at = { frame: this.#program.streams[update.pipeline].frames[frame].name, param: param.name }
    const [sum, dtype] = [entry && this.#shelf.typeOf(entry.type).dtype, dtypeOfGradient(param)]
    const say = (law: Law, said: Told) => this.#findings.push({ law, ...placeOf(update), ...said })
    if (!given) say('P3', told('P/not-given', at))
    else if (sum !== dtype) say('T5', told('T/summed-in', { ...at, sum: `${sum}`, dtype }))
  }

  /** A frame holds what an update made of it, as it is kept. */
  #left(update: Update, frame: number, made: Value | undefined, kept: HeldType): void {
    const { pipeline, param } = update
    const entry = this.#memory[pipeline][frame].get(0)
    const at = { param, frame: this.#program.streams[pipeline].frames[frame].name }
    const say = (law: Law, said: Told) => this.#findings.push({ law, ...placeOf(update), ...said })
    if (!entry || !made || !same(entry, made)) say('P3', told('P/not-made', at))
    else if (entry.type !== kept.type || entry.inside !== kept.inside)
      say('T4', told('T/left-kept', { ...at, left: this.#shelf.show(entry), kept: this.#shelf.show(kept) }))
  }

  /** Every holder of a result has the whole of it. */
  #results(): Result[] {
    return resultNames.flatMap(name =>
      resultPlaces(this.#program.results[name]).map(([pipeline, frame]) => {
        const entry = this.#memory[pipeline][frame].get(0)
        const type = entry && this.#shelf.typeOf(entry.type)
        const say = (law: Law, said: Told) =>
          this.#findings.push({ law, ...lastCall(this.#program, pipeline, frame), ...said })
        if (!entry) say('L6', told('L6/result', { name }))
        else if (type && Object.keys(type.layout.partial).length > 0)
          say('T4', told('T/left', { name, left: this.#shelf.show(entry) }))
        return { name, pipeline, value: entry ?? nothing }
      }),
    )
  }

  /** One stream. It yields while what it waits for has not happened. */
  *#play(stream: Stream, pipeline: number): Generator<void> {
    const memory = this.#memory[pipeline]
    const receiving = new Map<string, number>()
    const started = new Map<string, StartedCall>()
    for (const [i, step] of stream.steps.entries()) {
      if (step.kind === 'alloc' || step.kind === 'free') memory[step.frame] = new Map()
      else if (step.kind === 'send') this.#sent.set(step.tag, new Map(memory[step.frame]))
      else if (step.kind === 'recv') {
        memory[step.frame] = new Map()
        receiving.set(step.tag, step.frame)
      } else if (step.kind === 'wait') {
        const [frame, call] = [receiving.get(step.tag), started.get(step.tag)]
        if (call) yield* this.#finish(call)
        if (frame === undefined) continue
        while (!this.#sent.has(step.tag)) yield
        memory[frame] = this.#sent.get(step.tag)!
      } else {
        const call = yield* this.#start({ call: step, pipeline, step: i })
        if (step.tag === undefined) this.#settle(call.frame)
        else started.set(step.tag, call)
      }
      this.#clock++
      if (i % stepsBetweenPauses === stepsBetweenPauses - 1) yield
    }
  }

  *#start({ call, pipeline, step }: Pick<CallFrame, 'call' | 'pipeline' | 'step'>): Generator<void, StartedCall> {
    const ready = this.#shelf.ready(call)
    const words = () => new Int32Array(ready.slots.length)
    const frame: CallFrame = { call, pipeline, step, ready, a: words(), b: words() }
    const memory = this.#memory[pipeline]
    for (const take of ready.takes) this.#take(frame, take, memory[call.bind[take.role]])
    if (this.#program.segments[call.segment].phase === 'reduce')
      for (const bound of call.bind) this.#reduced[pipeline].add(bound)
    if (ready.crosses) return { frame, open: yield* this.#cross(frame) }
    for (const act of ready.acts) this.#act(frame, act)
    return { frame, open: new Map() }
  }

  /** The collectives that the call itself does not wait for are over, and its results are there. */
  *#finish({ frame, open }: StartedCall): Generator<void> {
    for (const [out, awaited] of open) yield* this.#leave(frame, out, awaited)
    this.#settle(frame)
  }

  /** What a call has made goes where it lies. */
  #settle(frame: CallFrame): void {
    const { call, pipeline, step, ready } = frame
    const memory = this.#memory[pipeline]
    for (const spot of ready.wipes) wipe(memory[call.bind[spot.role]], spot)
    for (const { slot, role, from, to, type, inside, gathers, gathered } of ready.leaves) {
      const microbatch = gathers ? -1 : call.microbatch
      const [a, b] = [frame.a[slot], frame.b[slot]]
      memory[call.bind[role]].set(from, { a, b, type, inside, to, microbatch, gathered })
      if (!gathers) this.#watch?.put({ a, b }, call.bind[role], { pipeline, step, segment: call.segment })
    }
  }

  #take(frame: CallFrame, slot: Ready['takes'][number], contents: Contents): void {
    const entry = contents.get(slot.from)
    const at = () => ({ ref: slot.ref, frame: this.#nameOf(frame, slot) })
    if (!entry) this.#say(frame, slot.instr, 'L6', told('L6/nothing', at()))
    else if (!fits(this.#shelf, entry, slot)) {
      const [read, written] = [slot, entry].map(one => this.#shelf.show(one))
      this.#say(frame, slot.instr, 'T4', told('T/read', { ...at(), read, written }))
    }
    const { microbatch } = frame.call
    if (entry && entry.microbatch >= 0 && microbatch >= 0 && entry.microbatch !== microbatch)
      this.#say(frame, slot.instr, 'P6', told('P/microbatch', { ...at(), own: entry.microbatch, call: microbatch }))
    frame.a[slot.slot] = entry?.a ?? slot.slot + 1
    frame.b[slot.slot] = entry?.b ?? frame.step + 1
  }

  #nameOf = ({ call, pipeline }: CallFrame, { role, from }: Slot) =>
    `${this.#program.streams[pipeline].frames[call.bind[role]].name}+${from}`

  #say(frame: CallFrame, instr: number, law: Law, said: Told): void {
    this.#findings.push({ law, ...placeIn(frame, instr), ...said })
  }

  /** Acts out a segment that meets other streams: leaving a collective waits until all have come. */
  *#cross(frame: CallFrame): Generator<void, StartedCall['open']> {
    const open = new Map<number, JoinedCollective>()
    for (const act of frame.ready.acts) {
      if (act.op === 'arrive') {
        const counter = `${frame.pipeline} ${act.group}`
        const n = (this.#met.get(counter) ?? 0) + 1
        this.#met.set(counter, n)
        const collective = `${act.group} #${n}`
        const present = this.#collectives.get(collective) ?? new Map<number, Value>()
        this.#collectives.set(collective, present.set(frame.pipeline, valueIn(frame, act.in)))
        open.set(act.out, { collective, act })
        this.#clock++
      } else if (act.op === 'leave') {
        yield* this.#leave(frame, act.out, open.get(act.out)!)
        open.delete(act.out)
      } else this.#act(frame, act)
    }
    return open
  }

  *#leave(frame: CallFrame, out: number, { collective, act }: JoinedCollective): Generator<void> {
    const present = this.#collectives.get(collective)!
    while (present.size < act.stages.length) yield
    put(frame, out, combined(act, [...present.values()]))
  }

  #act(frame: CallFrame, act: Act): void {
    switch (act.op) {
      case 'make':
        this.#make(frame, act)
        break
      case 'keep':
        put(frame, act.out, valueIn(frame, act.in))
        break
      case 'round':
        put(frame, act.out, rounded(valueIn(frame, act.in)))
        break
      case 'stack':
      case 'each':
      case 'unstack':
        this.#stacks.act(frame, act, value => this.#watch?.made(value, placeIn(frame, act.instr), frame.call))
        break
      case 'add':
        put(frame, act.out, sumIn(frame, act.ins))
        this.#verdicts.feedback.added(frame, act)
        break
      case 'rows': {
        const wrong = this.#rows.follow(frame, act)
        if (wrong) this.#say(frame, act.instr, 'R2', wrong)
        break
      }
      case 'accumulate':
        this.#accumulate(frame, act)
        break
      case 'zero':
        for (const slot of act.outs) put(frame, slot, nothing)
        break
      case 'load':
        put(frame, act.out, hashValues(act.salt, [{ a: act.scalar ? -1 : frame.call.microbatch, b: 0 }]))
        break
      case 'square':
        this.#square(frame, act)
        break
      case 'update':
        this.#update(frame, act)
        break
      default:
        if (act.op !== 'arrive' && act.op !== 'leave') this.#verdicts.act(this.#program, frame, act)
    }
  }

  #make(frame: CallFrame, act: Extract<Act, { op: 'make' }>): void {
    const { a, b, call } = frame
    let { a: x, b: y } = act.salt
    if (act.local) {
      x = mixA(mixA(x, call.block), call.microbatch)
      y = mixB(mixB(y, call.block), call.microbatch)
    }
    for (const slot of act.ins) {
      x = mixA(mixA(x, a[slot]), b[slot])
      y = mixB(mixB(y, b[slot]), a[slot])
    }
    act.outs.forEach((slot, i) => {
      const value = { a: resultA(x, i), b: resultB(y, i) }
      put(frame, slot, act.share ? shareOf(value, act.share) : value)
      if (act.loss) this.#ledger.loss(value, placeIn(frame, act.instr), call.microbatch)
      this.#watch?.made(value, placeIn(frame, act.instr), call)
    })
  }

  #accumulate(frame: CallFrame, act: Extract<Act, { op: 'accumulate' }>): void {
    const { a, b } = frame
    this.#ledger.accumulated(a[act.in], b[act.in], () => placeIn(frame, act.instr))
    this.#added(frame, act)
    a[act.out] += a[act.in]
    b[act.out] += b[act.in]
  }

  /** Something is added to what a frame holds, which must not have been summed over the ranks yet. */
  #added(frame: CallFrame, act: Extract<Act, { op: 'accumulate' | 'square' }>): void {
    const { pipeline } = frame
    const into = frameOf(frame, act.out)
    if (this.#reduced[pipeline].has(into))
      this.#say(frame, act.instr, 'P7', told('P/reduced', { frame: this.#program.streams[pipeline].frames[into].name }))
    this.#watch?.added(valueIn(frame, act.in), into, placeIn(frame, act.instr))
  }

  #square(frame: CallFrame, act: Extract<Act, { op: 'square' }>): void {
    if (act.first && frame.pipeline !== 0) return
    const x = valueIn(frame, act.in)
    this.#added(frame, act)
    this.#ledger.squared(x, placeIn(frame, act.instr))
    put(frame, act.out, plus(valueIn(frame, act.out), hashValues(act.salt, [x])))
  }

  /** Which parameter it is, is told by the value that is updated, wherever it lies. */
  #update(frame: CallFrame, act: Extract<Act, { op: 'update' }>): void {
    const before = act.outs.map(slot => valueIn(frame, slot))
    const ins = act.ins.map(slot => valueIn(frame, slot))
    const after = act.outs.map((_, i) => hashValues(hashValues(act.salt, [{ a: i, b: 0 }]), [...ins, ...before]))
    for (const [i, slot] of act.outs.entries()) put(frame, slot, after[i])
    const param = this.#params.get(keyOf(before[0].a, before[0].b))
    const { call } = frame
    const place = placeIn(frame, act.instr)
    if (!param) return void this.#findings.push({ law: 'P3', ...place, ...told('P/no-start') })
    if (call.param !== undefined && call.param !== param.name)
      this.#findings.push({ law: 'P3', ...place, ...told('P/updates-other', { param: call.param, other: param.name }) })
    const [updated, ...states] = after
    if (before.slice(1).some((value, i) => !isStart(param.name, act.states[i], value)))
      this.#findings.push({ law: 'P3', ...place, ...told('P/other-state', { param: param.name }) })
    for (const { scalar, in: slot } of act.reads)
      if (!same(valueIn(frame, slot), valueOfScalar(scalar)))
        this.#say(frame, act.instr, 'P9', told('P/unread', { param: param.name, scalar }))
    const grad = frame.ready.slots[act.ins[0]]
    const needed = this.#shelf.ofGradient(param)
    if (grad.type !== needed.type)
      this.#findings.push({
        ...{ law: 'T5', ...place },
        ...told('T/needed', { param: param.name, type: this.#shelf.show(grad), needed: this.#shelf.show(needed) }),
      })
    this.#verdicts.updated(this.#program, { ...place, param: param.name }, act, ins)
    this.#ledger.updated({
      ...place,
      pipeline: frame.pipeline,
      param: param.name,
      grad: ins[0],
      norm: ins[1] ?? nothing,
      trains: act.trains,
      after: { updated, states: Object.fromEntries(act.states.map((state, i) => [state, states[i]])) },
    })
  }
}
