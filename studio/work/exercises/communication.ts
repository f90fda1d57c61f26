/** Four ways to train one model on four ranks, by the bytes their ranks send in a step. */
import { clusterOf, clusterPrices, linkTraffic, rankTraffic } from 'lockstep'
import { type JobText, programOf } from '../jobs.js'
import type { Texts } from './index.js'

const plans = {
  dp: { dp: 4 },
  tp: { tp: 4 },
  pp: { pp: 4, microbatches: 4 },
  'zero 3': { dp: 4, zero: 3 },
} as const
export type Way = keyof typeof plans
const ways = Object.keys(plans) as Way[]

const jobOf = (way: Way): JobText => ({
  model: { family: 'llama', layers: 4, embed: 256, heads: 8, kvHeads: 8, ffn: 1024, vocab: 512 },
  training: { seq: 128, globalBatch: 16 },
  plan: plans[way],
})

export interface Sent {
  readonly way: Way
  /** Of all ranks together, in a step. */
  readonly bytes: number
  /** `all-reduce dp`, with its bytes, most first. */
  readonly parts: readonly { readonly what: string; readonly axis: string; readonly bytes: number }[]
}

function sentBy(way: Way): Sent {
  const rows = linkTraffic(programOf(jobOf(way)), clusterOf('h100', 4))
  const parts = rows.map(({ op, axis, bytes }) => ({ what: `${op} ${axis}`, axis, bytes }))
  return { way, bytes: parts.reduce((sum, { bytes }) => sum + bytes, 0), parts }
}

const sent = (): Sent[] => ways.map(sentBy).sort((a, b) => b.bytes - a.bytes)

export interface Communication extends Texts {
  readonly job: JobText
  /** Of the tensors that one rank of that job brings to its collectives. */
  readonly bytes: number
}

export function communication(_: object): Communication {
  const solution = sent().map(({ way }) => way)
  const job = jobOf('tp')
  const program = programOf(job)
  const [first] = rankTraffic(program, clusterPrices(program, clusterOf('h100', 4)), 0)
  return { start: ways.join('\n'), solution: solution.join('\n'), job, bytes: first!.bytes }
}

export interface JudgedRanking {
  /** Lines that name none of the four, from 1; ways that are not named, or twice. */
  readonly unknown: readonly { readonly line: number; readonly said: string }[]
  readonly uncounted: readonly Way[]
  /** The first pair of neighbours the wrong way round. */
  readonly reversed?: { readonly line: number; readonly less: Way; readonly more: Way }
  /** Of a ranking that is right. */
  readonly sent?: readonly Sent[]
}

export function judgeRanking({ text }: { readonly text: string }): JudgedRanking {
  const lines = text.split('\n').flatMap((said, n) => (said.trim() ? [{ said: said.trim(), line: n + 1 }] : []))
  const wayOf = (said: string) => ways.find(way => way.replace(' ', '') === said.toLowerCase().replace(/\s+/g, ''))
  const named = lines.map(({ said, line }) => ({ way: wayOf(said), said, line }))
  const unknown = named.filter(({ way }) => way === undefined).map(({ said, line }) => ({ said, line }))
  const uncounted = ways.filter(way => named.filter(each => each.way === way).length !== 1)
  if (unknown.length > 0 || uncounted.length > 0) return { unknown, uncounted }
  const all = sent()
  const bytesOf = (way: Way | undefined) => all.find(each => each.way === way)!.bytes
  const at = named.findIndex(({ way }, n) => n > 0 && bytesOf(named[n - 1]!.way) < bytesOf(way))
  if (at < 0) return { unknown, uncounted, sent: all }
  return { unknown, uncounted, reversed: { line: named[at]!.line, less: named[at - 1]!.way!, more: named[at]!.way! } }
}
