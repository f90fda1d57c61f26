/** Ranks are bound to cores of their own, among those the process may use. */
import { deepEqual, equal } from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { nativeMissing } from '../src/engine/native/index.js'

const cores = availableParallelism()
const skip = process.platform !== 'linux' ? 'only Linux binds threads' : (nativeMissing() ?? false)

/** '0-2,5' -> [0, 1, 2, 5]: the cores a thread may use. */
function coresIn(status: string): number[] {
  const list = /^Cpus_allowed_list:\s*(.*)$/m.exec(status)?.[1] ?? ''
  return list.split(',').flatMap(run => {
    const [from, to = from] = run.split('-').map(Number)
    return Array.from({ length: to - from + 1 }, (_, i) => from + i)
  })
}

/** A thread is bound as each of these ranks, one after the other: what it may use in the end. */
async function bound(...ranks: readonly (readonly [rank: number, of: number])[]): Promise<number[]> {
  const url = new URL('../src/engine/native/index.js', import.meta.url).href
  const code = `const { workerData: { url, ranks }, parentPort } = require('node:worker_threads')
    import(url).then(({ loadKernels }) => {
      for (const [rank, of] of ranks) loadKernels('native').bind(rank, of)
      parentPort.postMessage(require('node:fs').readFileSync('/proc/thread-self/status', 'utf8'))
    })`
  const [status] = await once(new Worker(code, { eval: true, workerData: { url, ranks } }), 'message')
  return coresIn(status as string)
}

const allowed = skip ? [] : coresIn(readFileSync('/proc/self/status', 'utf8'))

test('every core belongs to one rank', { skip }, async () => {
  const parts = await Promise.all(Array.from({ length: cores }, (_, rank) => bound([rank, cores])))
  deepEqual(parts.flat(), allowed)
  equal(parts.length, cores)
})

test('fewer ranks than cores share them all out, and none twice', { skip }, async () => {
  const ranks = Math.max(1, Math.floor(cores / 2))
  const parts = await Promise.all(Array.from({ length: ranks }, (_, rank) => bound([rank, ranks])))
  deepEqual(parts.flat(), allowed)
})

test('more ranks than cores may use them all, whatever their thread was before', { skip }, async () => {
  deepEqual(await bound([0, cores], [1, cores + 1]), allowed)
})

test('twice as many ranks as cores: two on each, neighbours apart', { skip }, async () => {
  const parts = await Promise.all(Array.from({ length: 2 * cores }, (_, rank) => bound([rank, 2 * cores])))
  deepEqual(parts.flat(), [...allowed, ...allowed])
})
