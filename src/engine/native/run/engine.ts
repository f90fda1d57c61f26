/**
 * The engine: a program on real ranks of this machine. A rank is a thread, its device memory an arena in the memory all
 * threads share, its step one list of commands that compiled code runs from end to end.
 */
import { type Described, described, mapStates, mean, type Rank, unwatched, worldOf } from '../../../base/index.js'
import { type Program, requireSound } from '../../../ir/index.js'
import { platform } from '../../../platform/index.js'
import { type SpanColumns, spansOfRanks } from '../../../trace/index.js'
import type { Runner, StartOptions, StepData, StepResult } from '../../runner.js'
import { stepCheckOf } from '../../step-data.js'
import { numbersIn } from '../kernels/dtypes.js'
import { type Kernels, loadKernels, prepareKernels } from '../kernels/kernels.js'
import { lower } from '../lower/lower.js'
import type { LoweredProgram } from '../lower/lowered.js'
import type { PanelOptions } from '../lower/panels.js'
import { waitingFor } from '../lower/waiting.js'
import { Crew } from './crew.js'
import { openRooms, type Rooms } from './disk.js'
import type { Drawing } from './draw.js'
import { Injector } from './faults.js'
import { failureOf } from './flight.js'
import { affords, defaultPatienceMs, fits, graceMs, leastBytes, neverMs, requireOptions } from './limits.js'
import { Looker } from './looker.js'
import type { Pool } from './pool.js'
import type { Assignment } from './protocol.js'
import { State } from './state.js'
import { Watchdog } from './watchdog.js'

/** Options of `startEngine`. */
export interface EngineOptions extends StartOptions {
  /** auto: native where it is built, else WebAssembly. */
  readonly kernels?: Kernels['kind'] | 'auto'
  /** Bytes a rank's arena may have. */
  readonly memoryLimit?: number
  /** The minimum time without progress before a step counts as hung, if no timeout is given. */
  readonly patienceMs?: number
  /** Keep the gradients the optimizer was given readable after the step. */
  readonly observeGradients?: boolean
  /** Memory that is not in use is NaN. */
  readonly poison?: boolean
  /** Threads to use; without it the engine starts its own and ends them. */
  readonly pool?: Pool | undefined
  /** Whether copy threads run alongside the ranks; by default if a core is free for one. */
  readonly copiers?: boolean
  /** For tests of faults: called with everything in place, before the first step. */
  readonly tamper?: (lowered: LoweredProgram, memory: SharedArrayBuffer) => void
}

/** The result of a step on the engine, with its wall-clock time. */
export interface EngineStep extends StepResult {
  /** From asking the ranks to the last of them being done. */
  readonly seconds: number
}

/** Starts the multithreaded engine: one thread per rank, native or WebAssembly kernels. */
export async function startEngine(program: Program, options: EngineOptions): Promise<Runner<Promise<EngineStep>>> {
  requireSound(program)
  requireOptions(options)
  await prepareKernels()
  const rooms = openRooms(program, options.offloadFolder)
  try {
    return await startIn(program, options, rooms)
  } catch (e) {
    rooms?.close()
    throw e
  }
}

async function startIn(
  program: Program,
  options: EngineOptions,
  rooms: Rooms | undefined,
): Promise<Runner<Promise<EngineStep>>> {
  const kernels = loadKernels(options.kernels)
  fits(program, options.memoryLimit ?? Infinity)
  affords(program, leastBytes(program, kernels.workspaceBytes))
  const waiting = waitingFor(worldOf(program.mesh), platform.cores, options.timeoutMs ?? neverMs)
  const reserved = kernels.memory(0).start
  const { measure = false } = options
  const [{ workspaceBytes }, panels] = [kernels, panelsOf(kernels)]
  const { copiers = rooms !== undefined || worldOf(program.mesh) < platform.cores } = options
  const more = { copiers, files: rooms?.files }
  const asked = { ...options, ...more, spans: measure, waiting, reserved, workspaceBytes, panels }
  const lowered = lower(program, asked)
  affords(program, lowered.bytes)
  const memory = kernels.memory(lowered.bytes - reserved)
  const state = new State(program, lowered, memory.buffer, rooms)
  const words = new Int32Array(memory.buffer)
  const ranks = lowered.lists.length
  const drawing = state.drawing(options.seed)
  const injector = options.faults && new Injector(options.faults, lowered, memory.buffer)
  const members = membersOf(lowered, drawing, injector)
  const { control } = lowered.map
  const { timeoutMs, patienceMs = defaultPatienceMs } = options
  const watchdog = timeoutMs === undefined ? new Watchdog({ program, lowered, words, patienceMs }) : undefined
  const crew = new Crew(
    { words, control, statuses: members.map(({ status }) => status) },
    {
      ...(options.pool ? { pool: options.pool } : {}),
      ...{ timeoutMs: options.timeoutMs ?? graceMs, watchdog },
      failure: trouble => failureOf({ program, lowered, words, trouble }, options.flightRecord),
    },
  )
  const assignmentOf = (rank: Rank): Assignment => ({
    ...{ kernels: kernels.kind, tuning: kernels.tuning, memory, rank, control },
    ...members[rank],
  })
  const looker = new Looker({
    ...{ program, state, injector, assignmentOf, buffer: memory.buffer, timeoutMs: timeoutMs ?? graceMs },
    ...{ pool: options.pool, noted: () => lower(program, { ...asked, notes: true }) },
  })
  const watcher = options.watcher ?? unwatched
  watcher.expect({ [phase]: 1 })
  await watcher.run(phase, starting(crew, ranks, assignmentOf))
  options.tamper?.(lowered, memory.buffer)
  return runnerOf({
    about: aboutRun(kernels, ranks),
    measure,
    crew,
    state,
    rooms,
    injector,
    looker,
    watchdog,
    checked: stepCheckOf(program),
  })
}

/** Ranks, and behind them their copiers: what each is told of itself. */
function membersOf({ map, listAt, handAt, copiers }: LoweredProgram, drawing: Drawing, injector: Injector | undefined) {
  const ranks = listAt.length
  return [
    ...map.ranks.map(({ status }, rank) => ({
      ...{ ranks, drawing, list: listAt[rank], status },
      ...{ hand: handAt[rank], deeds: injector?.deeds(rank) },
    })),
    ...copiers.map(({ at, status }) => ({ ranks: undefined, list: at, status })),
  ]
}

/** What a rank may spend on packed operands; the memory of WebAssembly ends at 4 GiB. */
const mostPanels: Readonly<Record<Kernels['kind'], number>> = { native: 2 ** 27, vectors: 2 ** 27, wasm: 2 ** 25 }

const panelsOf = ({ kind, panelColumns }: Kernels): PanelOptions | undefined =>
  panelColumns > 0 ? { columns: panelColumns, mostBytes: mostPanels[kind] } : undefined

const phase = 'initializing weights'
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

const aboutRun = ({ said, description }: Kernels, ranks: number): Described => {
  const kernels = said ?? description
  return ranks > 1 ? described('.run/ranks', { kernels, ranks }) : described('.run/rank', { kernels })
}

interface Parts {
  readonly about: Described
  readonly measure: boolean
  readonly crew: Crew
  readonly state: State
  readonly rooms: Rooms | undefined
  readonly injector: Injector | undefined
  readonly looker: Looker
  readonly watchdog: Watchdog | undefined
  readonly checked: (data: StepData) => StepData
}

/** A step run again, between steps. */
const lookedBy = (crew: Crew, looker: Looker, checked: Parts['checked']): Pick<Runner, 'look' | 'replay'> => ({
  async look(data) {
    crew.mustBeReady()
    return looker.look(checked(data))
  },
  async replay(data) {
    crew.mustBeReady()
    return looker.replay(checked(data))
  },
})

type HeldIn =
  | ('parameter' | 'setParameter' | 'states' | 'setStates' | 'scalars' | 'setScalars')
  | ('held' | 'hold' | 'gradient' | 'spread')

/** What lives from step to step. */
function heldIn(crew: Crew, state: State): Pick<Runner, HeldIn> {
  return {
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
    held: ({ rank, frame, dtype, first }) => numbersIn(dtype, state.frame(rank, frame, dtype).subarray(first)),
    hold: (at, values) => state.hold(at, values),
    gradient: name => state.gradient(name),
    spread: name =>
      Math.max(...[state.parameter(name), ...Object.values(state.states(name))].map(({ spread }) => spread)),
  }
}

function runnerOf({
  about,
  measure,
  crew,
  state,
  rooms,
  injector,
  looker,
  watchdog,
  checked,
}: Parts): Runner<Promise<EngineStep>> {
  let columns: readonly SpanColumns[] = []
  return {
    ...about,
    concurrent: true,
    async step(data) {
      crew.mustBeReady()
      state.prepare(checked(data))
      const before = state.scalars()
      const start = performance.now()
      injector?.arm(data.step + 1)
      await crew.step()
      const took = (performance.now() - start) / 1000
      for (const flip of injector?.flips(data.step + 1) ?? []) state.flip(flip)
      if (measure) {
        watchdog?.learn(state.rings())
        columns = state.columns()
      }
      return { ...state.result(before), seconds: took }
    },
    ...lookedBy(crew, looker, checked),
    ...heldIn(crew, state),
    replicas: () => state.disagreements(),
    get peaks() {
      return state.peaks().map(({ device }) => device)
    },
    get peaksElsewhere() {
      return state.peaks()
    },
    get choices() {
      return state.choices()
    },
    get columns() {
      return columns
    },
    get spans() {
      return spansOfRanks(columns)
    },
    async stop() {
      // A thread that is left behind may still write to its file, whose number must not become that of another.
      if (await crew.stop()) rooms?.close()
    },
  }
}
