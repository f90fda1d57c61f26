/**
 * What offload costs on one rank while another core copies for it: steps without offload, with a copier, and with a rank that copies
 * by itself when it waits. The numbers of all three are the same. Of what a rank that copies by itself spends on moves, the share
 * that is hidden is said twice: by steps, and by what ranks wait for moves.
 */
import { compileJob } from '../src/compile/index.js'
import { dataFor } from '../src/engine/index.js'
import { type EngineOptions, startEngine } from '../src/engine/native/index.js'
import type { Program } from '../src/ir/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import type { Span } from '../src/trace/index.js'
import type { Options, Say } from './main.js'
import { type Contender, median, type Result, run } from './race.js'
import { showResults, showSeconds } from './report.js'

type Offload = NonNullable<NonNullable<JobInput['plan']>['offload']>

const contenders = {
  none: { offloaded: false },
  copier: { offloaded: true, copiers: true },
  rank: { offloaded: true, copiers: false },
} as const
type Name = keyof typeof contenders

interface Case {
  readonly title: string
  readonly offload: Offload
  readonly seq: number
  readonly layers: number
  readonly precision: 'f32' | 'bf16'
}

const cases: readonly Case[] = [
  { title: 'optimizer state, f32', offload: { optimizer: 'host' }, seq: 64, layers: 8, precision: 'f32' },
  { title: 'optimizer state, bf16', offload: { optimizer: 'host' }, seq: 64, layers: 8, precision: 'bf16' },
  { title: 'boundaries, f32', offload: { activations: 'boundaries' }, seq: 256, layers: 8, precision: 'f32' },
]

const jobOf = ({ seq, layers, precision, offload }: Case, offloaded: boolean): Job =>
  Job.parse({
    model: { family: 'llama', layers, embed: 512, heads: 8, headDim: 64, ffn: 2048, vocab: 256 },
    training: { seq, globalBatch: 1, optimizer: { kind: 'adamw', lr: 1e-3 } },
    plan: { precision, recompute: 'full', ...(offloaded && { offload }) },
  })

/** Seconds that the rank spends on moves: from starts, and in waits. */
function movingIn({ segments, streams }: Program, spans: readonly Span[]): number {
  const moves = (at: number) => {
    const step = streams[0].steps[at]
    return step.kind === 'call' && segments[step.segment].phase === 'move'
  }
  return spans.reduce((sum, { step, start, end }) => sum + (moves(step) ? end - start : 0), 0)
}

async function contenderOf(name: Name, one: Case) {
  const { offloaded, ...options }: { offloaded: boolean } & Partial<EngineOptions> = contenders[name]
  const program = compileJob(jobOf(one, offloaded))
  const engine = await startEngine(program, { seed: 1, measure: true, ...options })
  const data = dataFor(program, { steps: 1, seed: 1, lr: 1e-3, vocab: 256 })
  const step = () => engine.step({ inputs: data(0), lr: 1e-3, step: 0 })
  const moving: number[] = []
  const contender: Contender = {
    name,
    answer: async () => [(await step()).loss, (await step()).loss],
    time: async () => {
      const { seconds } = await step()
      moving.push(movingIn(program, engine.spans))
      return seconds
    },
  }
  return { contender, moving, stop: () => engine.stop() }
}

export async function offload(_: Say, { rounds = 15, only = '' }: Options = {}): Promise<Result[]> {
  const results: Result[] = []
  for (const one of cases.filter(({ title }) => title.includes(only))) {
    const entered = []
    for (const name of ['none', 'copier', 'rank'] as const) entered.push(await contenderOf(name, one))
    const racing = entered.map(({ contender }) => contender)
    const expected = await contenderOf('none', one)
    const title = `offload of ${one.title}`
    const race = { title, expected: await expected.contender.answer(), tolerance: 0, contenders: racing }
    const result = await run(race, { rounds, warmups: 2 })
    results.push({ ...result, notes: notesOf(result, entered.slice(1)) })
    for (const { stop } of [...entered, expected]) await stop()
  }
  return results
}

/** Of what copies take a rank that does them by itself, what is hidden: by the best steps, and by the median of what ranks wait. */
function notesOf(result: Result, moving: readonly { readonly moving: readonly number[] }[]): string[] {
  const [none, copier] = result.entries.map(entry => ('best' in entry ? entry.best : Number.NaN))
  const [waits, copies] = moving.map(({ moving }) => median(moving.slice(2)))
  const share = (left: number) => `${(100 * (1 - left / copies)).toFixed(0)} %`
  return [
    `copies take a rank ${showSeconds(copies)}; hidden by steps ${share(copier - none)}, by waits ${share(waits)}`,
  ]
}

const versus = ['copier', 'rank'].map(name => ({ name, peer: 'none' }))

export const showOffload = (results: readonly Result[]): string =>
  [
    showResults(results, versus),
    ...results.flatMap(({ title, notes = [] }) => notes.map(note => `${title}: ${note}`)),
  ].join('\n')
