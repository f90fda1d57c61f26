/** A worker: answers questions by the functions of modules.ts, one after the other. */
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
    const value = await (functions[name] as Work)(input, { progress }) // asked by its type too
    self.postMessage({ type: 'answer', id, value }, [...buffersIn(value)])
  } catch (error) {
    self.postMessage({ type: 'refused', id, why: refusalOf(error) })
  }
}

let before = Promise.resolve()
self.addEventListener('message', ({ data }) => {
  before = before.then(() => answer(data))
})
self.postMessage({ type: 'ready' })
