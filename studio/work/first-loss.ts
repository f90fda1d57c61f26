/** The loss of the first step of an MLP, in f64 and on the data that `lockstep verify` takes. */
import { boot, inputsOf, syntheticData } from 'lockstep'
import { type JobText, programOf } from './jobs.js'

export function firstLoss(job: JobText): number {
  const program = programOf(job)
  const inputs = syntheticData(inputsOf(program), 1, 1)(0)
  return boot(program, { seed: 1 }).step({ inputs, lr: 0, step: 0 }).loss
}
