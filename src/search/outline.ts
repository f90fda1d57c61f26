/**
 * The program of a plan in outline: the same segments in the same order with the same messages between ranks, but nothing
 * of memory, which is what takes time to plan. Simulated, it takes as long as the program itself does. Where there are
 * very many sends they are not waited for: finding out when takes longer than all the rest, and they are nearly always
 * done before their sender could mind.
 */
import { evenParts, isOwnPrecision } from '../base/index.js'
import { sendWaits } from '../compile/index.js'
import type { Split } from '../estimate/index.js'
import type { Call, Program, Segment, Step, Stream } from '../ir/index.js'
import {
  communicate,
  type DataCall,
  Places,
  type Schedule,
  type Task,
  type TaskKind,
  tasksOf,
} from '../schedule/index.js'
import { clusterPrices, type Prices } from '../simulate/index.js'
import { Flights, type OutlinedFlights } from './flights.js'
import { keyOf, type Miniature, miniatureOf, partOf, type Script, scriptOf } from './miniature.js'
import type { Request } from './request.js'

export interface Outline {
  readonly program: Program
  readonly prices: Prices
}

/** What is stored is what the compiler knows; products may be asked for in fewer bits. */
export const pricesFor = ({ cluster, precision }: Request, program: Program): Prices =>
  clusterPrices(program, cluster, isOwnPrecision(precision) ? {} : { multiply: precision })

/** Outlines of the plans of one request. What plans share is made once: segments, their prices, rows of cues. */
export class Outlines {
  readonly #request: Request
  readonly #shared = new Map<string, SharedOutline>()
  readonly #scripts = new WeakMap<Schedule, CuedScript>()

  constructor(request: Request) {
    this.#request = request
  }

  of(split: Split, schedule: Schedule): Outline {
    const script = this.#scriptOf(schedule)
    const shared = this.#sharedBy(split, script)
    const { program, prices, templates, flights } = shared
    const layers = split.layers ?? evenParts(this.#request.shape.layers, schedule.stages)
    const callsFor = callsOf(shared, layers)
    const held = layersHeld(script, shared, layers)
    const segments = { ...program.segments }
    const termed = held.flatMap((own, rank) => (own.some((n, block) => n > 0 && hasTerms(shared, block)) ? [rank] : []))
    const streams = script.rows.map((cues, rank): Stream => {
      const meets = companions(schedule, script.places, rank)
      const { before, after } = templates[partOf(script, rank, script.rows.length)]
      const timesOf = (call: Call): number => {
        const layer = shared.layerOf(call)
        if (layer !== undefined) return held[rank][layer] ?? 0
        if (shared.isOfTerms(call)) return termed.includes(rank) ? 1 : 0
        return call.microbatch >= 0 ? split.microbatches : 1
      }
      const around = (calls: readonly Call[]): Step[] =>
        calls.flatMap(call => {
          const crosses = crossing(call, shared.isOfTerms(call) ? termed : meets, segments)
          return new Array<Step>(timesOf(call)).fill(crosses)
        })
      const tasks = tasksAmong(cues, callsFor, calls => flights.of(calls, segments))
      return { ...memoryless, frames: shared.messages, steps: [...around(before), ...tasks, ...around(after)] }
    })
    return { program: { ...program, stages: schedule.stages, segments, streams }, prices }
  }

  #sharedBy(split: Split, script: Script): SharedOutline {
    const key = keyOf(split, script)
    const known = this.#shared.get(key)
    if (known) return known
    const miniature = miniatureOf(this.#request, split, script)
    const { mesh } = miniature.program
    const axes = mesh.axes.map(axis => (axis.name === 'pp' ? { ...axis, size: split.pp } : axis))
    const program = { ...miniature.program, mesh: { ...mesh, axes }, microbatches: split.microbatches }
    const prices = pricesFor(this.#request, program)
    const shared = { ...miniature, program, prices, flights: new Flights(miniature.sharding) }
    this.#shared.set(key, shared)
    return shared
  }

  #scriptOf(schedule: Schedule): CuedScript {
    const known = this.#scripts.get(schedule)
    if (known) return known
    const places = new Places(schedule)
    const script = { ...scriptOf(schedule), places, rows: cuesOf(schedule, places) }
    this.#scripts.set(schedule, script)
    return script
  }
}

/** What plans share that are alike in all but their pipeline. */
interface SharedOutline extends Outline, Miniature {
  readonly flights: Flights
}

interface CuedScript extends Script {
  readonly places: Places
  readonly rows: readonly (readonly Cue[])[]
}

const memoryless: Pick<Stream, 'resident' | 'arena' | 'peak'> = {
  resident: [],
  arena: 0,
  peak: { parameters: 0, gradients: 0, optimizer: 0, activations: 0, workspace: 0, data: 0 },
}

/** A row of a schedule with its messages. */
type Cue = Task | Extract<Step, { kind: 'wait' | 'send' }>

/** Schedules with more messages than this do not wait for their sends. */
const fewMessages = 1024

function cuesOf(schedule: Schedule, places: Places): Cue[][] {
  const messages: Messages = { places, stages: schedule.stages, tagOf: tagsOf(schedule) }
  const { tagOf } = messages
  if (schedule.stages * schedule.microbatches > fewMessages)
    return schedule.rows.map((row, rank) => {
      const cues: Cue[] = []
      for (const action of row) addCues(cues, messages, rank, tasksOf([action]))
      return cues
    })
  const rows = communicate(schedule)
  const waits = sendWaits(rows)
  return rows.map((row, rank) => {
    const before = (at: number): Cue[] => (waits[rank].get(at) ?? []).map(tag => ({ kind: 'wait', tag }))
    const cues = row.flatMap((action, at): Cue[] => {
      if (!('peer' in action))
        return [...before(at), ...tasksOf([action]).flatMap(task => [...waitOf(messages, rank, task), task])]
      const { kind, stage, microbatch, peer } = action
      if (kind === 'SEND_F') return [{ kind: 'send', frame: 0, peer, tag: tagOf('F', stage, microbatch) }]
      return kind === 'SEND_B' ? [{ kind: 'send', frame: 1, peer, tag: tagOf('B', stage, microbatch) }] : []
    })
    return [...cues, ...before(row.length)]
  })
}

function addCues(cues: Cue[], messages: Messages, rank: number, tasks: readonly Task[]): void {
  for (const task of tasks) cues.push(...waitOf(messages, rank, task), task)
  // What a pair has made leaves when both are done.
  for (const task of tasks) cues.push(...sendOf(messages, rank, task))
}

/** The rank that a neighbouring stage is on, where that is another one. */
function elsewhere({ places, stages }: Messages, rank: number, stage: number, microbatch: number): number | undefined {
  if (stage < 0 || stage >= stages) return undefined
  const peer = places.rankOf(stage, microbatch)
  return peer === rank ? undefined : peer
}

function waitOf(messages: Messages, rank: number, { kind, stage, microbatch }: Task): Cue[] {
  const from = kind === 'F' ? stage - 1 : stage + 1
  if (kind === 'W' || elsewhere(messages, rank, from, microbatch) === undefined) return []
  return [{ kind: 'wait', tag: messages.tagOf(kind, from, microbatch) }]
}

function sendOf(messages: Messages, rank: number, { kind, stage, microbatch }: Task): Cue[] {
  const peer = kind === 'W' ? undefined : elsewhere(messages, rank, kind === 'F' ? stage + 1 : stage - 1, microbatch)
  if (peer === undefined) return []
  return [{ kind: 'send', frame: kind === 'F' ? 0 : 1, peer, tag: messages.tagOf(kind, stage, microbatch) }]
}

/** What is known of the messages of a schedule. */
interface Messages {
  readonly places: Places
  readonly stages: number
  readonly tagOf: TagOf
}

type TagOf = (kind: TaskKind, stage: number, microbatch: number) => string

/** Both sides of a message get the same string: what is the same is found sooner than what is equal. */
function tagsOf({ stages, microbatches }: Schedule): TagOf {
  const cells = Array.from({ length: stages * microbatches }, (_, i) => i)
  const cellOf = (i: number) => `${Math.floor(i / microbatches)}.${i % microbatches}`
  const [forward, back] = ['F', 'B'].map(way => cells.map(i => `${way}${cellOf(i)}`))
  return (kind, stage, microbatch) => (kind === 'F' ? forward : back)[stage * microbatches + microbatch]
}

/** The call of a block, and what of its parameters travels. */
interface BlockCall {
  /** What makes codes of its parameters, before its first forward. */
  readonly codes?: Call
  readonly call: Call
  readonly data: DataCall
}

type CallsFor = (stage: number, kind: TaskKind) => readonly BlockCall[]

/** The blocks of a stage one after the other, backwards where gradients are made. */
function callsOf(
  { program: { blocks, segments }, flights, blockOf }: SharedOutline,
  layers: readonly number[],
): CallsFor {
  const known: Readonly<Record<TaskKind, BlockCall[][]>> = { F: [], I: [], W: [], B: [] }
  const last = blocks.length - 1
  const make = (stage: number, kind: TaskKind): BlockCall[] => {
    const before = layers.slice(0, stage).reduce((sum, n) => sum + n, 0)
    const held: readonly (readonly [block: number, layer?: number])[] = [
      ...(stage === 0 ? [[0] as const] : []),
      ...Array.from({ length: layers[stage] }, (_, i) => [blockOf(before + i), before + i] as const),
      ...(stage === layers.length - 1 ? [[last] as const] : []),
    ]
    return (kind === 'F' ? held : held.toReversed()).flatMap(([block, layer]): BlockCall[] => {
      const segment = segments[`${blocks[block].kind}.${kind}`]
      if (segment.instrs.length === 0) return []
      const call: Call = { kind: 'call', segment: segment.name, block, microbatch: 0, bind: [] }
      const coding = kind === 'F' ? segments[`${blocks[block].kind}.C`] : undefined
      const codes: Call | undefined = coding && { ...call, segment: coding.name, microbatch: -1 }
      return [{ call, data: flights.callOf(block, kind, layer), ...(codes && { codes }) }]
    })
  }
  return (stage, kind) => {
    known[kind][stage] ??= make(stage, kind)
    return known[kind][stage]
  }
}

const isSend = (cue: Cue | undefined): boolean => cue !== undefined && !('stage' in cue) && cue.kind === 'send'

/** A row of cues as steps: tasks as calls of blocks, with their flights around them. */
function tasksAmong(
  cues: readonly Cue[],
  callsFor: CallsFor,
  flightsOf: (calls: readonly DataCall[]) => OutlinedFlights,
): Step[] {
  const data: DataCall[] = []
  for (const cue of cues) if ('stage' in cue) for (const call of callsFor(cue.stage, cue.kind)) data.push(call.data)
  const { begin, before, after, later, end } = flightsOf(data)
  const steps = [...begin]
  const ready: Step[] = []
  const coded = new Set<number>()
  let calls = 0
  for (const [at, cue] of cues.entries()) {
    const sends = isSend(cues[at + 1])
    if ('stage' in cue)
      for (const [i, { call, codes }] of callsFor(cue.stage, cue.kind).entries()) {
        const last = i === callsFor(cue.stage, cue.kind).length - 1
        const first = codes && !coded.has(cue.stage) ? [codes] : []
        steps.push(...before(calls, last), ...first, call, ...after(calls, last))
        ready.push(...later(calls++, last))
        if (!sends) steps.push(...ready.splice(0))
        if (last && cue.kind === 'F') coded.add(cue.stage)
      }
    else steps.push(cue)
    if (!sends) steps.push(...ready.splice(0))
  }
  steps.push(...end)
  return steps
}

/** Layers of each rank, by the block that plays their part. */
function layersHeld({ places, rows }: CuedScript, { blockOf }: SharedOutline, layers: readonly number[]): number[][] {
  const held = rows.map((): number[] => [])
  let layer = 0
  for (const [stage, count] of layers.entries()) {
    const own = Array.from({ length: count }, () => blockOf(layer++))
    for (const rank of places.holders(stage)) for (const block of own) held[rank][block] = (held[rank][block] ?? 0) + 1
  }
  return held
}

const hasTerms = ({ sharding: { model } }: SharedOutline, block: number): boolean =>
  model.blocks[block].graph.terms !== undefined

/** The ranks that a rank shares parameters with: its mirror image, or who holds the other end of a tied table. */
function companions(schedule: Schedule, places: Places, rank: number): number[] {
  const [first, last] = [places.holders(0), places.holders(schedule.stages - 1)]
  const both = first.length > 1 ? [rank, schedule.rows.length - 1 - rank] : [first[0], last[0]]
  return both.sort((a, b) => a - b)
}

/** A call of the miniature as the ranks of the plan make it: among themselves. */
function crossing(call: Call, stages: readonly number[], segments: Record<string, Segment>): Call {
  const segment = segments[call.segment]
  if (!segment.instrs.some(instr => 'group' in instr && instr.group.stages)) return call
  const name = `${segment.name.split('@')[0]}@${stages.join('.')}`
  segments[name] ??= {
    ...segment,
    name,
    instrs: segment.instrs.map(instr =>
      'group' in instr && instr.group.stages ? { ...instr, group: { ...instr.group, stages } } : instr,
    ),
  }
  return { ...call, segment: name }
}
