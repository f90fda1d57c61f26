/**
 * The engine: a program on real ranks of this machine. A rank is a thread, its device memory an arena in the memory all
 * threads share, its step one list of commands that compiled code runs from end to end.
 */
import {
  coordinatesOf,
  elementsOf,
  heldElements,
  mapStates,
  mean,
  type Rank,
  type Scalars,
  type States,
  seconds,
  stateEntries,
  unwatched,
  worldOf,
} from '../../../base/index.js'
import { assemble, offsets, ownPart, partOf, type Whole, wholeDims } from '../../../geometry/index.js'
import {
  type Buffer,
  type Holding,
  isUpdate,
  type Kind,
  keptAs,
  kinds,
  type Param,
  type ParamFrames,
  type Program,
  requireSound,
} from '../../../ir/index.js'
import { platform } from '../../../platform/index.js'
import { type Span, spanOf } from '../../../trace/index.js'
import type { Choices } from '../../choices.js'
import { placedScalars, scalarStartsOf, scalarsIn, stepResultOf } from '../../result.js'
import type { Runner, StartOptions, StepData, StepResult } from '../../runner.js'
import { stepCheckOf } from '../../step-data.js'
import { type Kernels, loadKernels, prepareKernels } from '../kernels/kernels.js'
import { Status } from '../lower/commands.js'
import { type LoweredProgram, lower, spanBytes, waitingFor } from '../lower/lower.js'
import { type MemoryMap, streamOf } from '../lower/map.js'
import type { PanelOptions } from '../lower/panels.js'
import { Crew } from './crew.js'
import type { Drawing } from './draw.js'
import { failureOf } from './flight.js'
import { affords, defaultTimeoutMs, fits, leastBytes, requireOptions } from './limits.js'
import type { Pool } from './pool.js'
import type { Assignment } from './protocol.js'

export interface EngineOptions extends StartOptions {
  /** auto: native where it is built, else WebAssembly. */
  readonly kernels?: Kernels['kind'] | 'auto'
  /** Bytes a rank's arena may have. */
  readonly memoryLimit?: number
  /** How long a rank may wait for another before all give up. */
  readonly timeoutMs?: number
  /** Keep the gradients the optimizer was given readable after the step. */
  readonly observeGradients?: boolean
  /** Memory that is not in use is NaN. */
  readonly poison?: boolean
  /** Threads to use; without it the engine starts its own and ends them. */
  readonly pool?: Pool
  /** For tests of faults: called with everything in place, before the first step. */
  readonly tamper?: (lowered: LoweredProgram, memory: SharedArrayBuffer) => void
}

export interface EngineStep extends StepResult {
  /** From asking the ranks to the last of them being done. */
  readonly seconds: number
}

export async function startEngine(program: Program, options: EngineOptions): Promise<Runner<Promise<EngineStep>>> {
  requireSound(program)
  requireOptions(options)
  await prepareKernels()
  const kernels = loadKernels(options.kernels)
  fits(program, options.memoryLimit ?? Infinity)
  affords(program, leastBytes(program, kernels.workspaceBytes))
  const waiting = waitingFor(worldOf(program.mesh), platform.cores, options.timeoutMs ?? defaultTimeoutMs)
  const reserved = kernels.memory(0).start
  const { measure = false } = options
  const { workspaceBytes } = kernels
  const panels = panelsOf(kernels)
  const lowered = lower(program, { ...options, spans: measure, waiting, reserved, workspaceBytes, panels })
  affords(program, lowered.bytes)
  const memory = kernels.memory(lowered.bytes - reserved)
  const state = new State(program, lowered, memory.buffer)
  const words = new Int32Array(memory.buffer)
  const ranks = lowered.lists.length
  const crew = new Crew(
    { words, control: lowered.map.control, statuses: lowered.map.ranks.map(({ status }) => status) },
    {
      ...(options.pool ? { pool: options.pool } : {}),
      timeoutMs: waiting.timeoutMs,
      failure: trouble => failureOf({ program, lowered, words, trouble }, options.flightRecord),
    },
  )
  const drawing = state.drawing(options.seed)
  const watcher = options.watcher ?? unwatched
  watcher.expect({ [phase]: 1 })
  await watcher.run(
    phase,
    starting(crew, ranks, rank => ({
      ...{ kernels: kernels.kind, tuning: kernels.tuning, memory, rank, ranks, drawing },
      ...{ control: lowered.map.control, list: lowered.listAt[rank], status: lowered.map.ranks[rank].status },
    })),
  )
  options.tamper?.(lowered, memory.buffer)
  const description = `${kernels.description}, ${ranks > 1 ? `${ranks} ranks, a thread each` : 'one rank'}`
  return runnerOf({ description, measure, crew, state, checked: stepCheckOf(program) })
}

/** What a rank may spend on packed operands; the memory of WebAssembly ends at 4 GiB. */
const mostPanels: Readonly<Record<Kernels['kind'], number>> = { native: 2 ** 27, vectors: 2 ** 27, wasm: 2 ** 25 }

const panelsOf = ({ kind, panelColumns }: Kernels): PanelOptions | undefined =>
  panelColumns > 0 ? { columns: panelColumns, mostBytes: mostPanels[kind] } : undefined

const phase = 'drawing the initial weights'
const millisecondsBetweenLooks = 20

/** The ranks get ready, by themselves; whoever watches may stop them. */
async function* starting(
  crew: Crew,
  ranks: number,
  assignmentOf: (rank: Rank) => Assignment,
): AsyncGenerator<number, void, void> {
  const shares = new Array<number>(ranks).fill(0)
  let isSettled = false
  const started = crew
    .start(assignmentOf, (rank, share) => {
      shares[rank] = share
    })
    .finally(() => {
      isSettled = true
    })
  try {
    while (!isSettled) {
      yield mean(shares)
      const pause = new Promise<void>(resolve => platform.later(millisecondsBetweenLooks, resolve))
      await Promise.race([started.catch(() => {}), pause])
    }
    await started
  } finally {
    if (!isSettled) {
      started.catch(() => {}) // nobody waits for it any more
      await crew.stop()
    }
  }
}

interface Parts {
  readonly description: string
  readonly measure: boolean
  readonly crew: Crew
  readonly state: State
  readonly checked: (data: StepData) => StepData
}

function runnerOf({ description, measure, crew, state, checked }: Parts): Runner<Promise<EngineStep>> {
  let spans: readonly Span[] = []
  return {
    description,
    concurrent: true,
    async step(data) {
      crew.mustBeReady()
      state.prepare(checked(data))
      const before = state.scalars()
      const start = performance.now()
      await crew.step()
      const took = (performance.now() - start) / 1000
      if (measure) spans = state.spans()
      return { ...state.result(before), seconds: took }
    },
    parameter: name => state.parameter(name).values,
    setParameter(name, values) {
      crew.mustBeReady()
      state.setParameter(name, values)
    },
    states: name => mapStates(state.states(name), ({ values }) => values),
    setStates(name, states) {
      crew.mustBeReady()
      state.setStates(name, states)
    },
    scalars: () => state.scalars(),
    setScalars(scalars) {
      crew.mustBeReady()
      state.setScalars(scalars)
    },
    held: ({ rank, frame, first }) => state.frame(rank, frame).subarray(first),
    // All of it is f32: writing rounds.
    hold: ({ rank, frame, first }, values) => state.frame(rank, frame).set(values, first),
    gradient: name => state.gradient(name),
    spread: name =>
      Math.max(...[state.parameter(name), ...Object.values(state.states(name))].map(({ spread }) => spread)),
    get peaks() {
      return state.peaks()
    },
    get choices() {
      return state.choices()
    },
    get spans() {
      return spans
    },
    stop: () => crew.stop(),
  }
}

/** What lies in the memory, read and written between steps. */
class State {
  readonly #program: Program
  readonly #lowered: LoweredProgram
  readonly #map: MemoryMap
  readonly #buffer: SharedArrayBuffer
  readonly #coordinates: readonly number[]

  constructor(program: Program, lowered: LoweredProgram, buffer: SharedArrayBuffer) {
    this.#program = program
    this.#lowered = lowered
    this.#map = lowered.map
    this.#buffer = buffer
    this.#coordinates = lowered.map.ranks.map((_, rank) => coordinatesOf(program.mesh, rank).pp ?? 0)
    for (const [rank, { words }] of lowered.lists.entries())
      new Float64Array(buffer, lowered.listAt[rank], words.length).set(words)
    for (const rank of this.#map.ranks.keys()) this.#residents(rank)
    this.setScalars(scalarStartsOf(program))
  }

  /** What ranks need to know to draw the initial weights. */
  drawing(seed: number): Drawing {
    const { mesh } = this.#program
    const params = this.#program.params.map(param => {
      const parts = this.#parts(param, keptAs(param), frames => frames.param)
      const holders = [...parts].map(([rank, { byteOffset }]) => ({ rank, offset: byteOffset }))
      const { name, init, dims, kept } = param
      return { name, init, dims, kept, holders }
    })
    return { seed, mesh, params }
  }

  /** What lives from step to step is counted from the start. */
  #residents(rank: Rank): void {
    const { frames, resident } = streamOf(this.#program, rank)
    const bytes = kinds.map(kind =>
      resident.reduce((sum, frame) => sum + (frames[frame].kind === kind ? frames[frame].bytes : 0), 0),
    )
    new Float64Array(this.#buffer, this.#map.ranks[rank].status + Status.live, 2 * kinds.length).set([
      ...bytes,
      ...bytes,
    ])
  }

  /** The data of a step, its number where masks need it, and counters from 0. */
  prepare({ inputs, lr, step }: StepData): void {
    for (const [name, { offset, dtype, elements }] of this.#map.inputs) {
      if (name === 'lr') continue
      if (dtype === 'i32') new Int32Array(this.#buffer, offset, elements).set(inputs(name))
      else new Float32Array(this.#buffer, offset, elements).set(inputs(name))
    }
    new Float32Array(this.#buffer, this.#map.lr, 1)[0] = lr
    for (const [rank, { stepWords, words }] of this.#lowered.lists.entries()) {
      const list = new Float64Array(this.#buffer, this.#lowered.listAt[rank], words.length)
      for (const word of stepWords) list[word] = step
    }
    const { offset, bytes } = this.#lowered.sync
    new Uint8Array(this.#buffer, offset, bytes).fill(0)
  }

  #first = (rank: Rank, frame: number): number => this.frame(rank, frame)[0]
  result = (before: Scalars<number>): StepResult => stepResultOf(this.#program, this.#first, before)
  scalars = (): Scalars<number> => scalarsIn(this.#program, this.#first)

  setScalars(scalars: Scalars<number>): void {
    for (const { pp, frame, value } of placedScalars(this.#program, scalars))
      for (const [rank, at] of this.#coordinates.entries()) if (at === pp) this.frame(rank, frame)[0] = value
  }

  frame(rank: Rank, index: number): Float32Array {
    const { offset, bytes } = streamOf(this.#program, rank).frames[index]
    return new Float32Array(this.#buffer, this.#map.ranks[rank].arena + offset, bytes / 4)
  }

  #param(name: string): Param {
    const param = this.#program.params.find(param => param.name === name)
    if (!param) throw new Error(`there is no parameter ${name}`)
    return param
  }

  #holders({ frames }: Pick<Param, 'frames'>): { rank: Rank; frames: ParamFrames }[] {
    return this.#coordinates.flatMap((pp, rank) => (frames[pp] ? [{ rank, frames: frames[pp] }] : []))
  }

  /** Each holder's own part of a tensor, in place. */
  #parts({ dims, ...param }: Param, holding: Holding, pick: (frames: ParamFrames) => number): Map<Rank, Float32Array> {
    const { mesh } = this.#program
    const own = (rank: Rank, frame: number) =>
      ownPart({ mesh, dims, ...holding }, coordinatesOf(mesh, rank), this.frame(rank, frame))
    return new Map(this.#holders(param).map(({ rank, frames }) => [rank, own(rank, pick(frames))]))
  }

  #whole(param: Param, holding: Holding, pick: (frames: ParamFrames) => number): Whole {
    return assemble(this.#program.mesh, param.dims, holding.layout, this.#parts(param, holding, pick))
  }

  #lay(param: Param, holding: Holding, pick: (frames: ParamFrames) => number, values: ArrayLike<number>): void {
    const { mesh } = this.#program
    const { dims } = param
    if (values.length !== elementsOf(dims))
      throw new Error(`${param.name} has ${elementsOf(dims)} elements, not ${values.length}`)
    for (const [rank, part] of this.#parts(param, holding, pick))
      part.set(partOf({ mesh, dims, ...holding }, coordinatesOf(mesh, rank), values))
  }

  parameter(name: string): Whole {
    const param = this.#param(name)
    return this.#whole(param, keptAs(param), frames => frames.param)
  }

  setParameter(name: string, values: ArrayLike<number>): void {
    const param = this.#param(name)
    this.#lay(param, keptAs(param), frames => frames.param, values)
  }

  states(name: string): States<Whole> {
    const param = this.#param(name)
    const [holder] = Object.values(param.frames)
    return mapStates(holder.states, (_, state) =>
      this.#whole(param, { layout: param.state }, frames => frames.states[state]!),
    )
  }

  setStates(name: string, states: States<ArrayLike<number>>): void {
    const param = this.#param(name)
    for (const [state, values] of stateEntries(states))
      this.#lay(param, { layout: param.state }, frames => frames.states[state]!, values)
  }

  /** In the order of the parameter's dims, whatever the order of the buffer the optimizer read. */
  gradient(name: string): Float64Array {
    const { mesh } = this.#program
    const param = this.#param(name)
    const { dims, layout } = this.#gradientBuffer(name)
    const whole = wholeDims(mesh, dims, layout)
    const parts = new Map(
      this.#holders(param).map(({ rank }) => {
        const at = this.#map.ranks[rank].observed.get(name)
        if (at === undefined) throw new Error('gradients are kept only where observeGradients asks for them')
        return [rank, new Float32Array(this.#buffer, at, heldElements(mesh, dims, layout))]
      }),
    )
    const { values } = assemble(mesh, whole, layout, parts)
    return Float64Array.from(offsets(param.dims, whole), index => values[index])
  }

  #gradientBuffer(name: string): Buffer {
    const { streams, segments } = this.#program
    for (const { steps } of streams)
      for (const step of steps) {
        if (step.kind !== 'call' || step.param !== name) continue
        const update = segments[step.segment].instrs.find(isUpdate)
        if (update) return segments[step.segment].buffers[update.ins[0]]
      }
    throw new Error(`no optimizer instruction was given a gradient of ${name}`)
  }

  peaks(): Record<Kind, number>[] {
    return this.#map.ranks.map(({ status }) => {
      const peaks = new Float64Array(this.#buffer, status + Status.live + 8 * kinds.length, kinds.length)
      return Object.fromEntries(kinds.map((kind, i) => [kind, peaks[i]])) as Record<Kind, number> // one entry per kind
    })
  }

  choices(): Choices {
    return new Map(
      [...this.#map.choices].map(([layer, { offset, dims }]) => [
        layer,
        { dims, values: new Int32Array(this.#buffer, offset, elementsOf(dims)).slice() },
      ]),
    )
  }

  /** Spans of the commands that ran since this was last called. */
  spans(): Span[] {
    const { lists, spansAt, spanCapacity } = this.#lowered
    return lists.flatMap(({ origins }, rank) => {
      const status = new Int32Array(this.#buffer, this.#map.ranks[rank].status, 16)
      const count = Math.min(status[Status.spans], spanCapacity)
      const ring = new Float64Array(this.#buffer, spansAt[rank], (spanCapacity * spanBytes) / 8)
      status[Status.spans] = 0
      return Array.from({ length: count }, (_, i) => {
        const [command, start, end] = ring.subarray(3 * i, 3 * i + 3)
        return spanOf(this.#program, { rank, ...origins[command], start: seconds(start), end: seconds(end) })
      })
    })
  }
}
