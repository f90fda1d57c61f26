/**
 * A worker: answers questions by the functions of modules.ts, one after the other. A function that takes long pauses now and then, and
 * what was asked meanwhile is answered first: a slider waits for a price, not for all that else can be chosen.
 */
import { ProblemsError } from 'lockstep'
import { type Context, type ModuleName, modules } from './modules.js'
import type { Question, Refusal, Reply } from './protocol.js'

/** The few names of a worker's scope that are used here; the DOM's types describe a window. */
declare const self: {
  postMessage(message: Reply, transfer?: Transferable[]): void
  addEventListener(type: 'message', hear: (event: MessageEvent<Question>) => void): void
}

type Work = (input: unknown, context: Context) => unknown

const refusalOf = (error: unknown): Refusal =>
  error instanceof ProblemsError
    ? { message: error.message, problems: error.problems }
    : { message: error instanceof Error ? error.message : String(error), problems: [] }

/** Buffers of typed columns move to the page; copying 500,000 spans would take longer than making them. */
function buffersIn(value: unknown, found = new Set<ArrayBuffer>()): Set<ArrayBuffer> {
  if (ArrayBuffer.isView(value)) {
    if (value.buffer instanceof ArrayBuffer) found.add(value.buffer)
  } else if (Array.isArray(value)) {
    if (typeof value[0] === 'object') for (const each of value) buffersIn(each, found)
  } else if (typeof value === 'object' && value !== null) {
    for (const each of Object.values(value)) if (typeof each === 'object') buffersIn(each, found)
  }
  return found
}

async function answer({ id, module, name, input }: Question): Promise<void> {
  try {
    const functions: Readonly<Record<string, unknown>> = await modules[module as ModuleName]() // asked by its type
    const progress = (value: unknown) => self.postMessage({ type: 'progress', id, value })
    const value = await (functions[name] as Work)(input, { progress, pause }) // asked by its type too
    self.postMessage({ type: 'answer', id, value }, [...buffersIn(value)])
  } catch (error) {
    self.postMessage({ type: 'refused', id, why: refusalOf(error) })
  }
}

const asked: Question[] = []
let busy = false

async function answerAll(): Promise<void> {
  for (let next = asked.shift(); next; next = asked.shift()) await answer(next)
}

const { port1, port2 } = new MessageChannel()
/** Behind all messages that have arrived; a timer would wait for 4 ms. */
const heard = () =>
  new Promise<void>(resolve => {
    port1.onmessage = () => resolve()
    port2.postMessage(null)
  })

async function pause(): Promise<void> {
  await heard()
  await answerAll()
}

self.addEventListener('message', async ({ data }) => {
  asked.push(data)
  if (busy) return
  busy = true
  await answerAll()
  busy = false
})
self.postMessage({ type: 'ready' })
