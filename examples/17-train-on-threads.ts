// The same program that was proved is trained on threads of this machine: 8 ranks, 3D-parallel, with compiled kernels.
import { Pool, startEngine } from '../src/engine/native/index.js'
import { compileJob, inputsOf, Job, serialJob, syntheticData } from '../src/index.js'

const job = Job.parse({
  model: { family: 'gpt', layers: 4, embed: 16, heads: 4, ffn: 32, vocab: 32, tied: true },
  training: { seq: 8, globalBatch: 8, clip: 1 },
  plan: { dp: 2, tp: 2, pp: 2, zero: 2, sequenceParallel: true, microbatches: 4 },
})

const pool = new Pool()
const losses = async (of: Job) => {
  const program = compileJob(of)
  const engine = await startEngine(program, { seed: 1, pool })
  const inputs = syntheticData(inputsOf(program), 32, 1)(0)
  const found: number[] = []
  for (let step = 0; step < 20; step++) found.push((await engine.step({ inputs, lr: 1e-2, step })).loss)
  const planned = program.streams[0].peak.parameters === engine.peaks[0].parameters
  console.log(`peak memory is as planned: ${planned}`)
  await engine.stop()
  return found
}

const [many, one] = [await losses(job), await losses(serialJob(job))]
console.log('8 ranks:', [many[0], many[10], many[19]].map(loss => loss.toFixed(3)).join(' '))
console.log('1 rank: ', [one[0], one[10], one[19]].map(loss => loss.toFixed(3)).join(' '))
await pool.close()

//> peak memory is as planned: true
//> peak memory is as planned: true
//> 8 ranks: 3.492 2.438 1.397
//> 1 rank:  3.492 2.438 1.397
