/**
 * The reference machine: a program on all its ranks, in one thread. Ranks take turns, each until it must wait.
 * In f64 it is the definition of what a program computes.
 */
import {
  type Dim,
  elementsOf,
  finish,
  mapStates,
  type Rank,
  type States,
  type Work,
  worldOf,
} from '../../base/index.js'
import { assemble, type Cells, initial, offsets, ownPart, partOf, type Whole, wholeDims } from '../../geometry/index.js'
import {
  type DType,
  dtypeOfState,
  type Holding,
  type Kind,
  keptAs,
  masterFrame,
  type Param,
  type ParamFrames,
  type Program,
} from '../../ir/index.js'
import { stepResultOf } from '../result.js'
import type { StepData, StepResult } from '../runner.js'
import { Actor } from './actor.js'
import { StallError } from './errors.js'
import { Mail, Meetings } from './rendezvous.js'
import { roundCells } from './rounding.js'
import type { Options, World } from './world.js'

export interface Machine {
  /** Runs the program once. Throws RunError, or StallError when no rank can move. */
  step(data: StepData): StepResult
  /** The same, watched. */
  stepping(data: StepData): Work<StepResult>
  /** Whole tensors, row-major over the parameter's dims, from the ranks' parts. */
  parameter(name: string): Float64Array
  /** What the optimizer updates: what the parameter is the rounded copy of, or where there is no master, the parameter. */
  master(name: string): Float64Array
  /** Gives every rank its part of the whole tensor, master and copy; gradients and other states stay as they are. */
  setParameter(name: string, values: ArrayLike<number>): void
  /** What is kept of it from step to step. */
  states(name: string): States<Float64Array>
  /** The cells of a frame that lives from step to step: not a copy. */
  held(rank: Rank, frame: number): Cells
  /** Puts numbers at the beginning of such a frame, rounded as they are stored. */
  hold(at: { readonly rank: Rank; readonly frame: number; readonly dtype: DType }, values: ArrayLike<number>): void
  /** As the optimizer was given it in the last step. */
  gradient(name: string): Float64Array
  /** The greatest difference between two ranks that should hold the same numbers of this parameter or of its states. */
  spread(name: string): number
  /** Per rank, the greatest sum of live bytes of each kind so far. */
  readonly peaks: readonly Readonly<Record<Kind, number>>[]
}

export function boot(program: Program, options: Options): Machine {
  const world: World = { program, options, prepared: new Map(), gradients: new Map(), ...freshStep(noData) }
  const actors = Array.from({ length: worldOf(program.mesh) }, (_, rank) => new Actor(world, rank))
  for (const actor of actors) clearState(actor)
  for (const param of program.params) initialise(program, actors, param, options.seed)

  const wholes = wholesOf(program, actors)
  function* stepping(data: StepData): Work<StepResult> {
    Object.assign(world, freshStep(data))
    yield* run(actors)
    return stepResultOf(program, (rank, frame) => actors[rank].memory.view(frame)[0])
  }
  return {
    step: data => finish(stepping(data)),
    stepping,
    parameter: name => wholes.parameter(name).values,
    master: name => wholes.master(name).values,
    setParameter: (name, values) => layOut(program, actors, paramOf(program, name), values),
    states: name => mapStates(wholes.states(name), whole => whole.values),
    held: (rank, frame) => actors[rank].memory.view(frame),
    hold: ({ rank, frame, dtype }, values) => store(actors[rank].memory.view(frame), values, dtype),
    gradient: name => gradientOf(world, name),
    spread: name =>
      Math.max(...[wholes.parameter(name), ...Object.values(wholes.states(name))].map(whole => whole.spread)),
    peaks: actors.map(actor => actor.memory.peak),
  }
}

const noData: StepData = { inputs: () => [], lr: NaN, step: 0 }

const freshStep = (data: StepData) => ({ data: cached(data), meetings: new Meetings(), mail: new Mail() })

/** Each input is asked for once a step. */
function cached(data: StepData): StepData {
  const known = new Map<string, ArrayLike<number>>()
  const inputs = (name: string) => {
    const values = known.get(name) ?? data.inputs(name)
    known.set(name, values)
    return values
  }
  return { lr: data.lr, step: data.step, inputs }
}

function* run(actors: readonly Actor[]): Work<void> {
  for (const actor of actors) actor.begin()
  const all = actors.reduce((sum, { stream }) => sum + stream.steps.length, 0)
  let taken = 0
  while (actors.some(actor => !actor.done)) {
    let moved = false
    for (const actor of actors)
      while (actor.advance()) {
        moved = true
        yield Math.min(1, taken++ / all)
      }
    if (!moved) throw new StallError(actors.filter(actor => !actor.done).map(actor => actor.blocked()))
  }
  for (const actor of actors) actor.finish()
}

/** Gradients and optimizer state start from 0. Other resident frames stay NaN until the program writes them. */
function clearState({ memory, stream: { frames, resident } }: Actor): void {
  for (const frame of resident)
    if (frames[frame].kind === 'gradients' || frames[frame].kind === 'optimizer') memory.view(frame).fill(0)
}

function initialise(program: Program, actors: readonly Actor[], param: Param, seed: number): void {
  const value = initial(param, seed)
  const whole = Float64Array.from({ length: elementsOf(param.dims) }, (_, index) => value(index))
  layOut(program, actors, param, whole)
}

/** Every rank's part of one and the same whole tensor. */
function layOut({ mesh }: Program, actors: readonly Actor[], param: Param, whole: ArrayLike<number>): void {
  if (whole.length !== elementsOf(param.dims))
    throw new Error(`parameter ${param.name} has ${elementsOf(param.dims)} elements, not ${whole.length}`)
  for (const { at, memory } of actors) {
    const frames = param.frames[at.pp ?? 0]
    if (!frames) continue
    const lay = (frame: number, holding: Holding, dtype: DType) => {
      const lying = { mesh, dims: param.dims, ...holding }
      store(ownPart(lying, at, memory.view(frame)), partOf(lying, at, whole), dtype)
    }
    lay(frames.param, keptAs(param), param.dtype)
    const master = masterFrame(frames)
    if (master !== undefined) lay(master, { layout: param.state }, dtypeOfState(param))
  }
}

function store(cells: Cells, values: ArrayLike<number>, dtype: DType): void {
  cells.set(values)
  roundCells(cells, dtype)
}

function paramOf({ params }: Program, name: string): Param {
  const param = params.find(param => param.name === name)
  if (!param) throw new Error(`there is no parameter ${name}`)
  return param
}

function wholesOf(program: Program, actors: readonly Actor[]) {
  const { mesh } = program
  const whole = ({ dims, frames }: Param, holding: Holding, pick: (frames: ParamFrames) => number): Whole => {
    const holders = actors.filter(({ at }) => frames[at.pp ?? 0])
    const frame = ({ at, memory }: Actor) => memory.view(pick(frames[at.pp ?? 0]))
    const part = (actor: Actor) => ownPart({ mesh, dims, ...holding }, actor.at, frame(actor))
    return assemble(mesh, dims, holding.layout, new Map(holders.map(actor => [actor.rank, part(actor)])))
  }
  const kept = (param: Param) => whole(param, keptAs(param), frames => frames.param)
  return {
    parameter: (name: string) => kept(paramOf(program, name)),
    master(name: string) {
      const param = paramOf(program, name)
      const [holder] = Object.values(param.frames)
      return masterFrame(holder) === undefined
        ? kept(param)
        : whole(param, { layout: param.state }, frames => masterFrame(frames)!)
    },
    states(name: string) {
      const param = paramOf(program, name)
      const [holder] = Object.values(param.frames)
      return mapStates(holder.states, (_, state) =>
        whole(param, { layout: param.state }, frames => frames.states[state]!),
      )
    },
  }
}

/** In the order of the parameter's dims, whatever the order of the buffer the optimizer read. */
function gradientOf({ program: { mesh, params }, gradients }: World, name: string): Float64Array {
  const captured = gradients.get(name)
  if (!captured) throw new Error(`no optimizer instruction was given a gradient of ${name}`)
  const { dims, layout } = captured.buffer
  const whole: Dim[] = wholeDims(mesh, dims, layout)
  const { values } = assemble(mesh, whole, layout, captured.parts)
  const order = params.find(param => param.name === name)?.dims ?? whole
  return Float64Array.from(offsets(order, whole), index => values[index])
}
