/**
 * The commands of a pass, dealt out among threads. Products are most of the work: every thread makes some columns of one
 * that has one row, or some rows of one that has several; the first thread does the rest. Threads meet where one reads what
 * others have written.
 */
import type { DecodeCommand } from './site.js'

/** Columns of a part are whole lines of cache. */
const line = 16

/** A product that threads can share. */
function productOf({ name, words }: DecodeCommand): Readonly<Record<string, number>> | undefined {
  const of = words as Readonly<Record<string, number>> // a product has no lists
  return name === 'matmul' && of.batch === 1 && of.transA === 0 && of.bias === 0 && of.add === 0 ? of : undefined
}

/** The part of a thread; undefined: it has none. */
function partOf(of: Readonly<Record<string, number>>, thread: number, threads: number): DecodeCommand | undefined {
  const { out, a, b, m, n, k, transB } = of
  if (m === 1) {
    const [from, to] = cutOf(n, line, thread, threads)
    if (from === to) return undefined
    const stride = transB ? k : n
    const at = { out: out + 4 * from, a, b: b + 4 * from * (transB ? k : 1) }
    return { name: 'matvec', words: { ...at, n: to - from, k, stride, transB } }
  }
  const [from, to] = cutOf(m, 1, thread, threads)
  if (from === to) return undefined
  return { name: 'matmul', words: { ...of, out: out + 4 * from * n, a: a + 4 * from * k, m: to - from } }
}

/** Which of n a thread has: all parts but the last are whole units. */
function cutOf(n: number, unit: number, thread: number, threads: number): readonly [from: number, to: number] {
  const units = Math.ceil(n / unit)
  const cut = (i: number) => Math.min(n, unit * Math.floor((units * i) / threads))
  return [cut(thread), cut(thread + 1)]
}

/** A list for each thread; `sync` is the block at which they meet. */
export function dealt(commands: readonly DecodeCommand[], threads: number, sync: number): DecodeCommand[][] {
  const lists: DecodeCommand[][] = Array.from({ length: threads }, () => [])
  let met = 0
  /** What the products since the last meeting have written; undefined: the first thread is at work alone. */
  let written: number[] | undefined
  const meet = () => {
    met++
    if (threads > 1)
      for (const [me, list] of lists.entries())
        list.push({ name: 'barrier', words: { sync, me, members: threads, collective: met } })
  }
  for (const command of commands) {
    const product = productOf(command)
    if (!product) {
      if (written) meet()
      written = undefined
      lists[0].push(command)
      continue
    }
    if (!written || written.includes(product.a)) {
      meet()
      written = []
    }
    written.push(product.out)
    for (const [thread, list] of lists.entries()) {
      const part = partOf(product, thread, threads)
      if (part) list.push(part)
    }
  }
  if (written) meet()
  return lists
}
