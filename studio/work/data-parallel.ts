/** Ranks that hold the same weights and read different samples: what each has of its own, and what they agree on. */
import { boot, compileJob, inputsOf, type Program, serialJob, syntheticData } from 'lockstep'
import { type JobText, jobOf, programOf, pythonOf, segmentLines } from './jobs.js'

export interface DataInput {
  readonly ranks: number
  /** Samples of each rank. */
  readonly batch: number
  readonly steps: number
}

export interface RankStep {
  /** The mean over its own samples. */
  readonly loss: number
  /** Of the first matrix, for its own mean. */
  readonly gradient: readonly number[]
  /** The same matrix after the update. */
  readonly weights: readonly number[]
}

export interface DataStep {
  readonly ranks: readonly RankStep[]
  readonly loss: number
  readonly gradient: readonly number[]
}

export interface DataAnswer {
  readonly steps: readonly DataStep[]
  /** The greatest difference of a gradient to one rank that reads the whole batch, over that gradient's largest element. */
  readonly apart: number
  /** The greatest difference between weights of two ranks. */
  readonly spread: number
  readonly job: JobText
  readonly lines: readonly string[]
  readonly python: string
}

const dataJob = ({ ranks, batch }: DataInput): JobText => ({
  model: { family: 'mlp', layers: 1, embed: 2, ffn: 4 },
  training: { seq: 1, globalBatch: ranks * batch, optimizer: { kind: 'adamw', lr } },
  plan: { dp: ranks },
})

const seed = 1
const lr = 0.05
const matrix = 'input.in'

export function dataParallel(input: DataInput): DataAnswer {
  const job = dataJob(input)
  const program = programOf(job)
  const watched = watch(program, input.ranks)
  const serial = boot(compileJob(serialJob(jobOf(job)), undefined, { verify: false }), { seed })
  const data = syntheticData(inputsOf(program), 1, seed)
  let apart = 0
  const steps = Array.from({ length: input.steps }, (_, step) => {
    const { loss } = watched.machine.step({ inputs: data(step), lr, step })
    serial.step({ inputs: data(step), lr, step })
    for (const { name } of program.params)
      apart = Math.max(apart, difference(watched.machine.gradient(name), serial.gradient(name)))
    return { ranks: watched.take(), loss, gradient: [...watched.machine.gradient(matrix)] }
  })
  const reduces = (name: string) => name.startsWith('reduce')
  return {
    ...{ steps, apart, spread: spreadOf(steps), job },
    lines: segmentLines(program, reduces),
    python: pythonOf(program, reduces),
  }
}

/** The greatest difference between weights of ranks after so many steps. */
export const spreadAfter = (input: DataInput): number => dataParallel(input).spread

/** A machine, and what its ranks had in the last step before they agreed. */
function watch(program: Program, ranks: number) {
  const blank = () =>
    Array.from({ length: ranks }, () => ({ loss: 0, count: 1, gradient: [] as number[], weights: [] as number[] }))
  let own = blank()
  const machine = boot(program, {
    seed,
    observe: ({ rank, call, instr, read }) => {
      if (!('outs' in instr)) return
      const mine = own[rank]!
      const [first] = instr.outs
      if (first === undefined) return
      if (call.segment === 'loss.F' && instr.kind === 'accumulate') mine.loss = read(first)[0]!
      if (call.segment === 'count' && instr.kind === 'accumulate') mine.count = read(first)[0]!
      if (call.segment === 'input.B' && instr.kind === 'accumulate') mine.gradient = [...read(first)]
      if (call.segment === `update ${matrix}`) mine.weights = [...read(first)]
    },
  })
  const take = (): RankStep[] => {
    const all = own
    own = blank()
    // The program divides by the count of the whole batch at once, so its parts add up; a rank's own mean is larger by that share.
    const whole = all.reduce((sum, { count }) => sum + count, 0)
    return all.map(({ loss, count, gradient, weights }) => ({
      loss: loss / count,
      gradient: gradient.map(value => (value * whole) / count),
      weights,
    }))
  }
  return { machine, take }
}

function difference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const [mine, theirs] = [Array.from(a), Array.from(b)]
  const largest = Math.max(...theirs.map(Math.abs), Number.MIN_VALUE)
  return Math.max(...mine.map((value, i) => Math.abs(value - theirs[i]!))) / largest
}

const spreadOf = (steps: readonly DataStep[]): number =>
  Math.max(
    0,
    ...steps.flatMap(({ ranks }) =>
      ranks.flatMap(({ weights }) => weights.map((value, i) => Math.abs(value - ranks[0]!.weights[i]!))),
    ),
  )
