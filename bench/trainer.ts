/** Those who train in a race: an engine, or a peer, a step at a time, on the same tokens. */
import { compileJob } from '../src/compile/index.js'
import { startEngine } from '../src/engine/native/run/engine.js'
import type { Job, PlanInput } from '../src/plan/index.js'
import { type Contender, type Result, run } from './race.js'

/** Steps whose losses are an answer, before the first is timed. */
const answered = 3

/** What one step is given. */
export interface Batch {
  readonly batch: number
  readonly seq: number
  readonly vocab: number
}

/** A language with rules, so that the loss falls: the next token follows from the last, but for one in eight. */
export function makeTokens({ batch, seq, vocab }: Batch, steps: number): Int32Array {
  let state = 1
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
  const tokens = new Int32Array(steps * batch * (seq + 1))
  for (let i = 0; i < tokens.length; i++)
    tokens[i] =
      i % (seq + 1) === 0 || random() < 1 / 8 ? Math.floor(random() * vocab) : (5 * tokens[i - 1] + 17) % vocab
  return tokens
}

/** The columns of one step's sequences: the tokens without the last, or without the first. */
function columns({ batch, seq }: Batch, tokens: Int32Array, step: number, from: number): Int32Array {
  const first = step * batch * (seq + 1)
  return Int32Array.from(
    { length: batch * seq },
    (_, i) => tokens[first + Math.floor(i / seq) * (seq + 1) + (i % seq) + from],
  )
}

/** One who trains: a step at a time, keeping its losses and the processor time of all its ranks. */
export interface Trainer extends Contender {
  readonly losses: readonly number[]
  readonly processor: readonly number[]
  stop(): Promise<void>
}

export type Train = () => Promise<{ seconds: number; loss: number; processor: number }>

export function trainer(name: string, train: Train, stop: () => Promise<void>): Trainer {
  const [losses, used]: number[][] = [[], []]
  const step = async () => {
    const { seconds, loss, processor } = await train()
    losses.push(loss)
    used.push(processor)
    return seconds
  }
  return {
    name,
    losses,
    processor: used,
    stop,
    time: step,
    answer: async () => {
      while (losses.length < answered) await step()
      return losses.slice(0, answered)
    },
  }
}

export async function ours(name: string, job: Job, given: Batch, tokens: Int32Array): Promise<Trainer> {
  const { batch, seq } = given
  const engine = await startEngine(compileJob(job), { seed: job.training.seed })
  const steps = tokens.length / (batch * (seq + 1))
  let done = 0
  const train: Train = async () => {
    const at = done % steps
    const inputs = (input: string) => columns(given, tokens, at, input === 'labels' ? 1 : 0)
    const before = process.cpuUsage()
    const { seconds, loss } = await engine.step({ inputs, lr: job.training.optimizer.lr, step: done++ })
    const { user, system } = process.cpuUsage(before)
    return { seconds, loss, processor: (user + system) / 1e6 }
  }
  return trainer(name, train, async () => engine.stop())
}

export function lossNotes(trainers: readonly Trainer[]): string[] {
  const steps = Math.min(...trainers.map(({ losses }) => losses.length))
  const spreads = Array.from({ length: steps }, (_, step) => {
    const losses = trainers.map(trainer => trainer.losses[step])
    return (Math.max(...losses) - Math.min(...losses)) / Math.max(...losses)
  })
  const [first] = trainers
  const least = trainers.map(({ name, processor }) => `${name} ${Math.min(...processor).toFixed(2)}`)
  return [
    `processor seconds of one step, all ranks together, least seen: ${least.join(', ')}`,
    `losses of ${steps} steps from ${first.losses[0].toFixed(4)} to ${first.losses[steps - 1].toFixed(4)}; ` +
      `greatest difference between two contenders ${Math.max(...spreads).toExponential(1)} of the loss`,
  ]
}

export interface PlanRace {
  readonly title: string
  readonly jobOf: (plan: PlanInput) => Job
  readonly given: Batch
  readonly plans: Readonly<Record<string, PlanInput>>
  /** How far losses may be from those of one rank, as a share. */
  readonly tolerance: number
  readonly rounds: number
}

/** Plans of one model on the same tokens; the answer is what one rank gives. */
export async function racePlans({ title, jobOf, given, plans, tolerance, rounds }: PlanRace): Promise<Result> {
  const tokens = makeTokens(given, 4)
  const trainers: Trainer[] = []
  try {
    const one = await ours('one rank', jobOf({}), given, tokens)
    const expected = await one.answer()
    await one.stop()
    for (const [name, plan] of Object.entries(plans)) trainers.push(await ours(name, jobOf(plan), given, tokens))
    const result = await run({ title, expected, tolerance, contenders: trainers }, { rounds, pause: 50 })
    return { ...result, notes: lossNotes(trainers) }
  } finally {
    await Promise.all(trainers.map(trainer => trainer.stop()))
  }
}
