/**
 * What it costs a run to look after itself, on two ranks: a bare engine's steps against those of a session with every check off, with
 * one of them on, and with all that `train` does. The same job and data; all must give the same losses, to the bit.
 */
import { FaultBook, parseFaults } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import { batchAt } from '../src/data/index.js'
import { startEngine } from '../src/engine/native/index.js'
import { watchRun } from '../src/health/index.js'
import { Job, lrAt } from '../src/plan/index.js'
import { type SessionOptions, startSession, syntheticOf } from '../src/train/index.js'
import type { Options, Say } from './main.js'
import { type Contender, median, type Result, run } from './race.js'
import { showResults, type Versus } from './report.js'

const job = Job.parse({
  model: { family: 'gpt', layers: 4, embed: 256, heads: 4, vocab: 256 },
  training: { seq: 128, globalBatch: 8, optimizer: { kind: 'adamw', lr: 1e-3 }, evalBatches: 0 },
  plan: { dp: 2 },
})
const dataset = syntheticOf(job)

interface Step {
  readonly step: () => Promise<{ readonly loss: number }>
  readonly stop: () => Promise<void>
}

/** A time-out that nobody has to watch for, and no clocks. */
const bare = { timeout: 600, measure: false } as const

async function engine(): Promise<Step> {
  const engine = await startEngine(compileJob(job), { seed: job.training.seed, timeoutMs: 1000 * bare.timeout })
  let behind = 0
  return {
    step() {
      const inputs = batchAt(dataset.train, job.training, behind)
      return engine.step({ inputs, lr: lrAt(job.training, behind), step: behind++ })
    },
    stop: async () => engine.stop(),
  }
}

async function session(options: SessionOptions, watches = false): Promise<Step> {
  const session = await startSession(job, dataset, { ...bare, ...options })
  const watch = watchRun({ path: 'run', job, mesh: session.program.mesh })
  return {
    async step() {
      const record = await session.step()
      if (watches) watch(record)
      return record
    },
    stop: () => session.stop(),
  }
}

/** A fault that never comes: commands are counted for it, and nothing happens. */
const later = () => new FaultBook(parseFaults(['kill:rank=0,step=1000000']).faults)

const contenders: Readonly<Record<string, () => Promise<Step>>> = {
  engine,
  off: () => session({}),
  stalls: () => session({ timeout: undefined }),
  fault: () => session({ faults: later() }),
  ranks: () => session({ measure: true }),
  train: () => session({ timeout: undefined, measure: true }, true),
  hash: () => session({ hashEvery: 1 }),
}

async function contenderOf(name: string) {
  const { step, stop } = await contenders[name]()
  let answered: Promise<number[]> | undefined
  const answer = async () => [(await step()).loss, (await step()).loss]
  const contender: Contender = {
    name,
    answer: () => (answered ??= answer()), // of the first steps
    time: async () => {
      const started = performance.now()
      await step()
      return (performance.now() - started) / 1000
    },
  }
  return { contender, stop }
}

export async function health(say: Say, { rounds = 40 }: Options = {}): Promise<Result[]> {
  const title = `GPT 3.3M, a step of ${job.training.globalBatch * job.training.seq} tokens on 2 ranks`
  const entered: Awaited<ReturnType<typeof contenderOf>>[] = []
  for (const name of Object.keys(contenders)) entered.push(await contenderOf(name))
  say(`${title}: started`)
  const racing = entered.map(({ contender }) => contender)
  const race = { title, expected: await racing[0].answer(), tolerance: 0, contenders: racing }
  const result = await run(race, { rounds, warmups: 3 })
  for (const { stop } of entered) await stop()
  return [{ ...result, notes: versus.map(pair => noteOf(result, pair)) }]
}

const versus: readonly Versus[] = [
  { name: 'off', peer: 'engine' },
  ...['stalls', 'fault', 'ranks', 'train', 'hash'].map(name => ({ name, peer: 'off' })),
]

/** What it costs, in percent: of best steps, of median ones, and the median of turns, each of which has a step of both. */
function noteOf({ entries }: Result, { name, peer }: Versus): string {
  const [own, other] = [name, peer].map(wanted => entries.find(entry => entry.name === wanted))
  if (!own || !other || !('times' in own) || !('times' in other)) return `${name}: not timed`
  const more = (ratio: number) => `${ratio < 1 ? '-' : '+'}${Math.abs(100 * (ratio - 1)).toFixed(2)} %`
  const turns = median(own.times.map((seconds, turn) => seconds / other.times[turn]))
  return `${name} against ${peer}: ${more(own.best / other.best)} by best, ${more(own.median / other.median)} by median, ${more(turns)} by turns`
}

export const showHealth = (results: readonly Result[]): string =>
  [showResults(results, versus), '', ...results.flatMap(({ notes }) => notes ?? [])].join('\n')
