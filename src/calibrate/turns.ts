/**
 * What is timed, in turns: a machine that others use too is quick in one second and slow in the next, and times compare
 * only if they were taken in the same seconds.
 */
import { batchAt, type Dataset } from '../data/index.js'
import { startTrainer } from '../engine/index.js'
import type { Program } from '../ir/index.js'
import { type Job, lrAt } from '../plan/index.js'
import { endOf, type Span, startOf } from '../trace/index.js'
import { engineFailures } from '../train/index.js'

export interface Player {
  turn(): Promise<void>
  stop(): Promise<void>
}

export type Start = () => Promise<Player>

/**
 * Runs measurements in alternation, so that they see the same machine. Yields the fraction done. All are stopped at
 * the end, errors included. Where the samples are not `settled` after all rounds there are up to as many again.
 */
export async function* inTurns(
  starts: readonly Start[],
  rounds: number,
  settled: () => boolean = () => true,
): AsyncGenerator<number, void, void> {
  const players: Player[] = []
  try {
    for (const start of starts) {
      yield 0
      players.push(await start())
    }
    for (let round = 0; round < rounds || (round < 2 * rounds && !settled()); round++)
      for (const [i, player] of players.entries()) {
        yield Math.min(1, (round + i / players.length) / rounds)
        await player.turn()
      }
  } finally {
    for (const player of players) await player.stop()
  }
}

export interface TimedStep {
  /** From the first command of any rank to the end of the last: what the ranks took, not what it took to tell them. */
  readonly seconds: number
  readonly spans: readonly Span[]
  /** The kernels that ran, and on how many ranks. */
  readonly kernels: string
}

/** Steps of a turn that count. One before them finds in the caches what the others left there. */
export const stepsOfTurn = 3

/** A program that trains a few steps each turn: `seen` is told of each step that counts. */
export const trainee =
  (job: Job, program: Program, dataset: Dataset, seen: (step: TimedStep) => void): Start =>
  async () => {
    const { training } = job
    const options = { kernels: 'auto', seed: training.seed, measure: true } as const
    const trainer = await engineFailures(['start'], () => startTrainer(program, options))
    let step = 0
    return {
      async turn() {
        for (let i = 0; i <= stepsOfTurn; i++, step++) {
          const inputs = batchAt(dataset.train, training, step)
          await engineFailures(['step', step + 1], () => trainer.step({ inputs, lr: lrAt(training, step), step }))
          const { spans, description } = trainer
          if (i > 0) seen({ seconds: endOf(spans) - startOf(spans), spans, kernels: description })
        }
      },
      stop: () => trainer.stop(),
    }
  }
