/** A decoder on the fast kernels: its room is the memory that its threads share, a pass one list of commands for each. */
import { elementsOf, error, ProblemsError, showBytes } from '../../../base/index.js'
import type { Ref } from '../../../ir/index.js'
import { platform } from '../../../platform/index.js'
import { type DecodeEngine, type DecodePass, type DecodeRoom, regionsOf } from '../../decode.js'
import { type Kernels, loadKernels, prepareKernels } from '../kernels/kernels.js'
import { type CommandName, Status, Sync } from '../lower/commands.js'
import { wordOf } from '../lower/list.js'
import { Control, Region } from '../lower/map.js'
import { type Waiting, waitingFor } from '../lower/waiting.js'
import { CommandWriter, type WordsOf } from '../lower/writer.js'
import { Crew } from '../run/crew.js'
import { graceMs, neverMs } from '../run/limits.js'
import type { Pool } from '../run/pool.js'
import { dealt } from './deal.js'
import { commandsOf, type DecodeCommand } from './site.js'

export interface DecodeOptions {
  readonly kernels?: Kernels['kind'] | 'auto'
  /** Without it, as many as pay. */
  readonly threads?: number | undefined
  readonly pool?: Pool | undefined
}

/** A thread more pays where each has so many bytes of weights to read for a token. */
const bytesPerThread = 4 << 20
const mostThreads = 8

function threadsFor({ weights }: DecodeRoom): number {
  const bytes = Object.values(weights).reduce((sum, dims) => sum + 4 * elementsOf(dims), 0)
  return Math.max(1, Math.min(platform.cores, mostThreads, Math.floor(bytes / bytesPerThread)))
}

export async function nativeDecoder(room: DecodeRoom, options: DecodeOptions = {}): Promise<DecodeEngine> {
  await prepareKernels()
  const kernels = loadKernels(options.kernels)
  const threads = options.threads ?? threadsFor(room)
  const layout = layOut(room, kernels, threads)
  if (layout.bytes > platform.memoryBytes) throw new ProblemsError([tooLarge(layout.bytes)])
  const memory = kernels.memory(layout.bytes - kernels.memory(0).start)
  const { control, statuses, lists, sync, weights } = layout
  const words = new Int32Array(memory.buffer)
  const crew = new Crew(
    { words, control, statuses },
    {
      ...(options.pool ? { pool: options.pool } : {}),
      timeoutMs: graceMs,
      failure: ({ dead, failed }) =>
        new Error(`a decoder failed: ${[...dead.values(), ...failed.values()].join('; ')}`),
    },
  )
  await crew.start(rank => ({
    ...{ kernels: kernels.kind, tuning: kernels.tuning, memory, rank, ranks: threads > 1 ? threads : undefined },
    ...{ control, list: lists[rank], status: statuses[rank] },
  }))
  const written = passes(layout, memory.buffer)
  return {
    description: `${kernels.description}, ${threads === 1 ? 'one thread' : `${threads} threads`}`,
    weight: name => new Float32Array(memory.buffer, weights.get(name), elementsOf(room.weights[name])),
    async run(pass, ids, past) {
      crew.mustBeReady()
      words.set(ids, layout.inputs.tokens / 4)
      for (let i = 0; i < ids.length; i++) words[layout.inputs.positions / 4 + i] = past + i
      written.turnTo(pass, past)
      words.fill(0, sync / 4, (sync + syncBytes(threads)) / 4)
      await crew.step()
      const { dims } = pass.values[pass.logits]
      return new Float32Array(memory.buffer, layout.at(pass, pass.logits), elementsOf(dims)).slice()
    },
    stop: async () => void (await crew.stop()),
  }
}

const tooLarge = (bytes: number) =>
  error(
    'engine/memory',
    '',
    `weights and caches need ${showBytes(bytes)}, but this machine has ${showBytes(platform.memoryBytes)}`,
    'use a shorter context',
  )

const syncBytes = (threads: number): number => Sync.lineBytes * (threads + 1)

type DecodeLayout = ReturnType<typeof layOut>

function layOut(room: DecodeRoom, kernels: Kernels, threads: number) {
  const region = new Region(kernels.memory(0).start)
  const each = (bytes: number, align?: number) => Array.from({ length: threads }, () => region.take(bytes, align))
  const [control, sync] = [region.take(Control.bytes), region.take(syncBytes(threads))]
  const [statuses, workspaces] = [each(Status.bytes), each(kernels.workspaceBytes, 4096)]
  const regions = regionsOf(room, elements => region.take(4 * elements))
  const { weights, caches, inputs, scratch } = regions
  const at = ({ values }: DecodePass, ref: Ref): number => {
    const { place } = values[ref]
    if (place.kind === 'scratch') return scratch + 4 * place.first
    if (place.kind === 'input') return inputs[place.name]
    return (place.kind === 'weight' ? weights : caches).get(place.name) ?? 0
  }
  const waiting = waitingFor(threads, platform.cores, neverMs)
  const listsOf = (pass: DecodePass): readonly WrittenList[] =>
    dealt(
      commandsOf(pass, ref => at(pass, ref)),
      threads,
      sync,
    ).map((list, thread) => writtenList(list, { control, waiting, workspace: workspaces[thread], kernels }))
  // Passes differ in sizes, and a little in where threads meet.
  const longest = listsOf(room.largest).reduce((most, { words }) => Math.max(most, words.length), 0)
  const listWords = 2 * longest + 64
  const lists = each(8 * listWords)
  return { control, sync, statuses, weights, inputs, at, listsOf, lists, listWords, bytes: region.bytes }
}

/** A list, and those of its words that depend on how many tokens came before. */
interface WrittenList {
  readonly words: Float64Array
  readonly moving: readonly (readonly [word: number, by: (past: number) => number])[]
}

interface ListPlaces {
  readonly control: number
  readonly waiting: Waiting
  readonly workspace: number
  readonly kernels: Kernels
}

function writtenList(
  list: readonly DecodeCommand[],
  { control, waiting, workspace, kernels }: ListPlaces,
): WrittenList {
  const writer = new CommandWriter()
  const moving: [number, (past: number) => number][] = []
  writer.put('config', {
    ...{ abort: control + 4 * Control.abort, ...waiting, spans: 0, spanCapacity: 0 },
    ...{ workspace, workspaceBytes: kernels.workspaceBytes },
  })
  for (const { name, words, rowBytes } of list) {
    const start = writer.length
    const move = <N extends CommandName>(of: N, word: keyof WordsOf<N> & string, by: (past: number) => number) =>
      moving.push([start + wordOf(of, word), by])
    writer.put(name, words as unknown as WordsOf<typeof name>) // they were taken down as such
    if (name === 'attention') {
      const queries = Number(words.queries)
      move('attention', 'queryOrigin', past => past)
      for (const word of ['keys', 'keyUntil', 'positions'] as const) move('attention', word, past => past + queries)
    }
    if (rowBytes !== undefined) move('copy', 'out', past => Number(words.out) + past * rowBytes)
  }
  return { words: writer.list(), moving }
}

/** Puts the lists of a pass where threads find them, and says how many tokens are behind it. */
function passes({ lists, listWords, listsOf }: DecodeLayout, buffer: SharedArrayBuffer) {
  const known = new WeakMap<DecodePass, readonly WrittenList[]>()
  const views = lists.map(at => new Float64Array(buffer, at, listWords))
  let current: DecodePass | undefined
  return {
    turnTo(pass: DecodePass, past: number): void {
      const written = known.get(pass) ?? listsOf(pass)
      known.set(pass, written)
      if (pass !== current) for (const [i, { words }] of written.entries()) views[i].set(words)
      current = pass
      for (const [i, { moving }] of written.entries()) for (const [word, by] of moving) views[i][word] = by(past)
    },
  }
}
