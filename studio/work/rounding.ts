/** An MLP trained in several precisions by the interpreter, which rounds as the plan says: what becomes of small steps. */
import { boot, inputsOf, syntheticData } from 'lockstep'
import { type JobText, programOf } from './jobs.js'

export const ways = ['f32', 'bf16', 'pure-bf16', 'stochastic'] as const
export type Rounded = (typeof ways)[number]

export interface RoundedRun {
  readonly way: Rounded
  readonly first: number
  readonly last: number
  /** Of the weights that are multiplied with, the share that is not what it was at the start. */
  readonly moved: number
  readonly job: JobText
}

const steps = 40

const planOf: Readonly<Record<Rounded, Readonly<Record<string, unknown>>>> = {
  f32: { precision: 'f32' },
  bf16: { precision: 'bf16' },
  'pure-bf16': { precision: 'pure-bf16' },
  stochastic: { precision: 'pure-bf16', rounding: 'stochastic' },
}

export const rounded = ({ lr }: { readonly lr: number }): readonly RoundedRun[] => ways.map(way => run(way, lr))

function run(way: Rounded, lr: number): RoundedRun {
  const job = {
    model: { family: 'mlp', layers: 2, embed: 8, ffn: 16 },
    training: { seq: 4, globalBatch: 8, optimizer: { kind: 'adamw', lr } },
    plan: { dp: 2, ...planOf[way] },
  }
  const program = programOf(job)
  const machine = boot(program, { seed: 1, precision: 'f32' })
  const weights = () => program.params.flatMap(({ name }) => [...machine.parameter(name)])
  const inputs = syntheticData(inputsOf(program), 1, 1)(0)
  const before = weights()
  const losses = Array.from({ length: steps }, (_, step) => machine.step({ inputs, lr, step }).loss)
  const moved = weights().filter((value, n) => value !== before[n]).length / before.length
  return { way, first: losses[0]!, last: losses.at(-1)!, moved, job }
}
