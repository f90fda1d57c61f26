// A job is a model, a training step and a plan. Compile it, check it against the laws, and compare it with one rank in f64.
import { compare, compileJob, Job, runSerial, serialJob, verify, worstOf } from '../src/index.js'

const job = Job.parse({
  model: { family: 'llama', layers: 4, embed: 16, heads: 4, kvHeads: 2, ffn: 32, vocab: 32 },
  training: { seq: 8, globalBatch: 8, clip: 1 },
  plan: { dp: 2, tp: 2, pp: 2, zero: 3, sequenceParallel: true, microbatches: 4, recompute: 'selective' },
})

const program = compileJob(job)
console.log('laws broken:', verify(program, compileJob(serialJob(job, 4))).length)

const options = { steps: 3, seed: 1, lr: 1e-3, eps: 1e-8, vocab: 32 }
const comparison = compare(program, runSerial(compileJob(serialJob(job)), options), options)
console.log('losses:', comparison.steps.map(step => step.loss.toFixed(4)).join(' '))
console.log('8 ranks compute what one rank computes:', worstOf(comparison) < 1e-12)

//> laws broken: 0
//> losses: 3.4719 3.4815 3.4809
//> 8 ranks compute what one rank computes: true
