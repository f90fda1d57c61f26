/**
 * One of our ranks in the race of collectives: a thread that is told what to run and says how long each run took. Runs
 * stand in one command list, as they would in a training step: rewrite the operand, barrier, collective. The times are
 * the spans that the kernels record.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { collectivesOf, type Seat, type Tensor } from '../src/engine/native/group/collectives.js'
import { loadKernels } from '../src/engine/native/kernels/kernels.js'
import { Status } from '../src/engine/native/lower/commands.js'
import { ListWriter } from '../src/engine/native/lower/list.js'
import { digest, wholeNumber } from './numbers.js'
import { type Assignment, line, mostSpans, type Operation, type Request, spanBytes, spanWords } from './requests.js'

const { token, rank } = workerData as Assignment // from collectives.ts
const kernels = loadKernels(token.kernels, token.tuning)
kernels.bind(rank, token.ranks)
const exec = kernels.attach(token.memory)
const members = Array.from({ length: token.ranks }, (_, i) => i)
const [right, left] = [(rank + 1) % token.ranks, (rank + token.ranks - 1) % token.ranks]
const status = new Int32Array(token.memory.buffer, token.statuses[rank], 16)
let [collectives, messages] = [0, 0]

const seat: Seat = {
  ...{ rank, members, sync: token.blocks },
  collective: () => ++collectives,
  at: (peer, { offset }) => token.heaps[peer] + offset,
}

const floats = (elements: number, offset: number): Tensor => ({ dtype: 'f32', length: elements, offset })
const view = ({ length, offset }: Tensor) => new Float32Array(token.memory.buffer, token.heaps[rank] + offset, length)

/** Operand and result of an operation. */
function tensors({ operation, bytes }: Request): { x: Tensor; out: Tensor } {
  const [whole, part] = [bytes / 4, bytes / 4 / token.ranks]
  const [first, second] = [spanBytes, spanBytes + Math.ceil(bytes / line) * line]
  if (operation === 'all-gather') return { x: floats(part, first), out: floats(whole, second) }
  if (operation === 'reduce-scatter') return { x: floats(whole, first), out: floats(part, second) }
  if (operation === 'all-reduce') return { x: floats(whole, first), out: floats(whole, first) }
  return { x: floats(whole, first), out: floats(whole, second) }
}

function sendRecv(list: ListWriter, x: Tensor, out: Tensor): void {
  const message = ++messages
  const words = (from: number, to: number) => ({ sync: token.messages + line * (from * token.ranks + to), message })
  const tensors = (from: number, to: number) => ({ x: seat.at(from, x), out: seat.at(to, out), bytes: 4 * x.length })
  list.write('send', words(rank, right))
  list.write('recv', words(left, rank))
  list.write('waitRecv', { ...words(left, rank), ...tensors(left, rank) })
  list.waitsFor([left])
  list.write('waitSend', { ...words(rank, right), ...tensors(rank, right) })
  list.waitsFor([right])
}

function write(list: ListWriter, request: Request): void {
  const { x, out } = tensors(request)
  const all = collectivesOf({ members, heapBytes: token.heapBytes }, work => work(list, seat))
  const rules: Record<Operation, () => void> = {
    'all-reduce': () => all.allReduce(x),
    'all-gather': () => all.allGather(x, out),
    'reduce-scatter': () => all.reduceScatter(x, out),
    'all-to-all': () => all.allToAll(x, out),
    'send-recv': () => sendRecv(list, x, out),
    // Done when all have copied: ranks that share a core copy one after the other.
    copy: () => {
      list.write('copyBytes', { out: seat.at(rank, out), x: seat.at(rank, x), bytes: request.bytes })
      barrier(list)
    },
  }
  rules[request.operation]()
}

/** Runs a list; how many commands it had, but for the first and the last. */
function execute(fill: (list: ListWriter) => void): number {
  const writer = new ListWriter()
  const spans = { spans: token.heaps[rank], spanCapacity: mostSpans }
  writer.write('config', { abort: token.control, ...token.waiting, ...spans, workspace: 0, workspaceBytes: 0 })
  fill(writer)
  const { words, starts } = writer.finish()
  new Float64Array(token.memory.buffer, token.lists[rank], words.length).set(words)
  status[Status.spans] = 0
  const code = exec(token.lists[rank], token.statuses[rank])
  if (code !== 0) throw new Error(`rank ${rank}: error ${code}`)
  return starts.length - 2
}

const barrier = (list: ListWriter) =>
  list.write('barrier', { sync: seat.sync, me: rank, members: token.ranks, collective: seat.collective() })

function answer(request: Request): number[] {
  const { x, out } = tensors(request)
  const values = view(x)
  for (let i = 0; i < values.length; i++) values[i] = wholeNumber(i, rank)
  execute(list => {
    barrier(list)
    write(list, request)
  })
  return [digest(view(out))]
}

/**
 * Every run has the same commands: the first two and the last are not its time. After the last nobody rewrites an operand
 * on a core that a slower rank still needs for this run; the peers meet there too, to find the slowest.
 */
function times(request: Request): number[] {
  const { x } = tensors(request)
  const commands = execute(list => {
    for (let run = 0; run < request.runs; run++) {
      list.write('fill', { out: seat.at(rank, x), n: x.length, value: rank + run })
      barrier(list)
      write(list, request)
      barrier(list)
    }
  })
  const perRun = commands / request.runs
  const spans = new Float64Array(token.memory.buffer, token.heaps[rank], commands * spanWords)
  const [starts, ends] = [1, 2].map(word => (command: number) => spans[spanWords * command + word])
  return Array.from({ length: request.runs }, (_, run) => ends((run + 1) * perRun - 2) - starts(run * perRun + 2))
}

parentPort!.on('message', (request: Request) =>
  parentPort!.postMessage(request.runs === 0 ? answer(request) : times(request)),
)
parentPort!.postMessage([])
