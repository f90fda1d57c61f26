/**
 * What offload costs on one rank while another core copies for it: steps without offload, with a copier, and with a rank that copies
 * by itself when it waits. The numbers of all three are the same. Of what copies take by themselves (a rank that copies alone, in its moves),
 * the share that is hidden is 1 - (time with offload - time without) / (time of copies): by the best steps of each, by the median of turns,
 * each of which has a step of every contender, and by what a rank that has a copier still waits for moves.
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
  { title: 'optimizer state, f32', offload: { optimizer: 'host' }, seq: 64, layers: 4, precision: 'f32' },
  { title: 'optimizer state, bf16', offload: { optimizer: 'host' }, seq: 64, layers: 4, precision: 'bf16' },
  { title: 'layer inputs, f32', offload: { activations: 'layer-inputs' }, seq: 256, layers: 4, precision: 'f32' },
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
  let answered: Promise<number[]> | undefined
  const answer = async () => [(await step()).loss, (await step()).loss]
  const contender: Contender = {
    name,
    answer: () => (answered ??= answer()), // of the first steps
    time: async () => {
      const { seconds } = await step()
      moving.push(movingIn(program, engine.spans))
      return seconds
    },
  }
  return { contender, moving, stop: () => engine.stop() }
}

const warmups = 1
/** Copies that take less of a step are lost in its noise. */
const seen = 0.05

export async function offload(say: Say, { rounds = 7, only = '' }: Options = {}): Promise<Result[]> {
  const results: Result[] = []
  for (const one of cases.filter(({ title }) => title.includes(only))) {
    const entered: Awaited<ReturnType<typeof contenderOf>>[] = []
    for (const name of ['none', 'copier', 'rank'] as const) entered.push(await contenderOf(name, one))
    const racing = entered.map(({ contender }) => contender)
    const title = `offload of ${one.title}`
    say(`${title}: started`)
    const race = { title, expected: await racing[0].answer(), tolerance: 0, contenders: racing }
    const result = await run(race, { rounds, warmups })
    const moving = entered.slice(1).map(({ moving }) => moving.slice(warmups))
    results.push({ ...result, notes: notesOf(result, moving) })
    for (const { stop } of entered) await stop()
    say(`${title}: done`)
  }
  return results
}

function notesOf({ entries }: Result, [waits, copies]: readonly (readonly number[])[]): string[] {
  const [none, copier] = entries.map(entry => ('times' in entry ? entry.times : []))
  const share = (left: number, of: number) => `${(100 * (1 - left / of)).toFixed(0)} %`
  const [least, usual] = [Math.min(...copies), median(copies)]
  const byBest = share(Math.min(...copier) - Math.min(...none), least)
  const byTurns = share(median(copier.map((seconds, turn) => seconds - none[turn])), usual)
  const canBeSeen = least >= seen * Math.min(...none)
  return [
    `copies take a rank ${showSeconds(least)} (median ${showSeconds(usual)}); hidden ` +
      (canBeSeen ? `by best steps ${byBest}, by turns ${byTurns}, ` : 'by steps: too little to be seen, ') +
      `by waits ${share(Math.min(...waits), least)} (median ${share(median(waits), usual)})`,
  ]
}

const versus = ['copier', 'rank'].map(name => ({ name, peer: 'none' }))

export const showOffload = (results: readonly Result[]): string =>
  [
    showResults(results, versus),
    ...results.flatMap(({ title, notes = [] }) => notes.map(note => `${title}: ${note}`)),
  ].join('\n')
