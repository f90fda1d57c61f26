/**
 * The reference machine: a program on all its ranks, in one thread. Ranks take turns, each until it must wait.
 * In f64 it is the definition of what a program computes.
 */
import {
  type Described,
  type Dim,
  described,
  elementsOf,
  finish,
  mapStates,
  type Rank,
  type Scalars,
  stateEntries,
  summedDims,
  type Work,
  worldOf,
} from '../../base/index.js'
import {
  assemble,
  type Cells,
  initial,
  type Kept,
  offsets,
  ownPart,
  parameterOf,
  partOf,
  startingAs,
  stateOf,
  type Whole,
  wholeDims,
} from '../../geometry/index.js'
import { type DType, type Param, type Program, requireSound } from '../../ir/index.js'
import { placedScalars, scalarStartsOf, scalarsIn, stepResultOf } from '../result.js'
import type { Runner, StepData, StepResult } from '../runner.js'
import { stepCheckOf } from '../step-data.js'
import { Actor } from './actor.js'
import { StallError } from './errors.js'
import { cellWidth } from './memory.js'
import { Mail, RendezvousTable } from './rendezvous.js'
import { roundCells } from './rounding.js'
import type { Options, World } from './world.js'

/** Its steps throw RunError, or StallError when no rank can move. */
export interface Interpreter extends Runner<StepResult> {
  /** A step, watched. */
  stepping(data: StepData): Work<StepResult>
}

/** Starts the reference interpreter on a program. Throws its violations if it is invalid. */
export function boot(program: Program, options: Options): Interpreter {
  requireSound(program)
  return interpreterOf(program, options)
}

/** The machine of a program that was checked before, or is wanted broken. */
export function interpreterOf(program: Program, options: Options): Interpreter {
  const cellBytes = cellWidth(program)
  const fresh = (data: StepData) => ({ data, collectives: new RendezvousTable(), mail: new Mail(cellBytes) })
  const world: World = { program, options, cellBytes, prepared: new Map(), gradients: new Map(), ...fresh(noData) }
  const actors = Array.from({ length: worldOf(program.mesh) }, (_, rank) => new Actor(world, rank))
  for (const actor of actors) clearState(actor)
  for (const param of program.params) initialise(program, actors, param, options.seed)
  setScalars(program, actors, scalarStartsOf(program))
  const wholes = wholesOf(program, actors)
  const read = (rank: Rank, frame: number) => actors[rank].memory.view(frame)[0]
  const checked = stepCheckOf(program)
  function* stepping(data: StepData): Work<StepResult> {
    Object.assign(world, fresh(checked(data)))
    const before = scalarsIn(program, read)
    yield* run(actors)
    return stepResultOf(program, read, before)
  }
  return {
    ...describe(program, options, actors.length),
    concurrent: false,
    step: data => finish(stepping(data)),
    stepping,
    parameter: name => wholes.parameter(name).values,
    setParameter: (name, values) => layOut(program, actors, paramOf(program, name), values),
    states: name => mapStates(wholes.states(name), whole => whole.values),
    setStates(name, states) {
      const param = paramOf(program, name)
      for (const [state, values] of stateEntries(states)) lay(program, actors, param, stateOf(param, state), values)
    },
    scalars: () => scalarsIn(program, read),
    setScalars: scalars => setScalars(program, actors, scalars),
    held: ({ rank, frame, first }) => actors[rank].memory.view(frame).subarray(first),
    hold: ({ rank, frame, dtype, first }, values) =>
      store(actors[rank].memory.view(frame).subarray(first), values, dtype),
    gradient: name => gradientOf(world, name),
    spread: name =>
      Math.max(...[wholes.parameter(name), ...Object.values(wholes.states(name))].map(whole => whole.spread)),
    peaks: actors.map(actor => actor.memory.peaks.device),
    peaksElsewhere: actors.map(actor => actor.memory.peaks),
    choices: new Map(),
    ...{ columns: [], spans: [] },
    stop() {},
  }
}

/** Numbers that are stored in fewer digits are rounded to them where the machine keeps f32. */
function describe({ params }: Program, { precision = 'f64' }: Options, ranks: number): Described {
  const narrow = params.find(({ dtype }) => dtype !== 'f32')?.dtype
  const digits = precision === 'f32' ? (narrow ?? precision) : precision
  return ranks > 1 ? described('.run/in-turns', { digits, ranks }) : described('.run/alone', { digits })
}

const noData: StepData = { inputs: () => [], lr: NaN, step: 0 }

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

function setScalars(program: Program, actors: readonly Actor[], scalars: Scalars<number>): void {
  for (const { pp, frame, value } of placedScalars(program, scalars))
    for (const { at, memory } of actors) if ((at.pp ?? 0) === pp) memory.view(frame)[0] = value
}

function initialise(program: Program, actors: readonly Actor[], param: Param, seed: number): void {
  const value = initial(param, seed)
  const whole = Float64Array.from({ length: elementsOf(param.dims) }, (_, index) => value(index))
  layOut(program, actors, param, whole)
}

function layOut(program: Program, actors: readonly Actor[], param: Param, whole: ArrayLike<number>): void {
  for (const kept of startingAs(param)) lay(program, actors, param, kept, whole)
}

/** Gives every rank that keeps it its part of one and the same whole tensor. */
function lay({ mesh }: Program, actors: readonly Actor[], param: Param, kept: Kept, whole: ArrayLike<number>): void {
  const { dims } = kept
  const elements = elementsOf(summedDims(dims))
  if (whole.length !== elements)
    throw new Error(`parameter ${param.name} has ${elements} elements, not ${whole.length}`)
  const lying = { mesh, dims, ...kept.holding }
  for (const { at, memory } of actors) {
    const frames = param.frames[at.pp ?? 0]
    const frame = frames && kept.frameOf(frames)
    if (frame !== undefined) store(ownPart(lying, at, memory.view(frame)), partOf(lying, at, whole), kept.dtype)
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
  const whole = ({ frames }: Param, { dims, holding, frameOf }: Kept): Whole => {
    const parts = actors.flatMap(({ rank, at, memory }) => {
      const held = frames[at.pp ?? 0]
      return held ? [[rank, ownPart({ mesh, dims, ...holding }, at, memory.view(frameOf(held)!))] as const] : []
    })
    return assemble(mesh, dims, holding.layout, new Map(parts))
  }
  return {
    parameter(name: string) {
      const param = paramOf(program, name)
      return whole(param, parameterOf(param))
    },
    states(name: string) {
      const param = paramOf(program, name)
      const [holder] = Object.values(param.frames)
      return mapStates(holder.states, (_, state) => whole(param, stateOf(param, state)))
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
