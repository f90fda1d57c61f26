// One program serves every rank, so the program of rank 4711 of 16,384 can be looked at from here.
import { compileJob, Job, presets, printRank } from '../src/index.js'

const job = Job.parse({
  model: presets['llama3-405b'],
  training: { seq: 8192, globalBatch: 2048, clip: 1 },
  plan: { tp: 8, pp: 16, dp: 128, zero: 1, sequenceParallel: true, microbatches: 16, schedule: 'interleaved' },
})
const program = compileJob(job)
const text = printRank(program, 4711).split('\n')
console.log(text[0])
console.log(text.find(line => line.includes('tp:'))?.trim())
const { parameters, optimizer } = program.streams[4].peak
console.log(
  `${(parameters / 2 ** 30).toFixed(2)} GiB of parameters, ${(optimizer / 2 ** 20).toFixed(2)} MiB of optimizer state`,
)

//> rank 4711 of 16384: tp 7/8 cp 0/1 ep 0/1 dp 76/128 pp 4/16
//> tp: 4704 4705 4706 4707 4708 4709 4710 4711
//> 11.88 GiB of parameters, 190.02 MiB of optimizer state
