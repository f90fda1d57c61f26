// A cluster that nobody needs to own: Llama 3 405B as Meta split it over 16,384 H100, simulated event by event.
import { clusterOf, clusterPrices, compileJob, Job, presets, simulate } from '../src/index.js'

const job = Job.parse({
  model: presets['llama3-405b'],
  training: { seq: 8192, globalBatch: 2048, clip: 1 },
  plan: {
    ...{ tp: 8, sequenceParallel: true, pp: 16, dp: 128, zero: 1, precision: 'bf16' },
    ...{ schedule: 'interleaved', microbatches: 16, layers: { first: 3, last: 3 } },
  },
})
const program = compileJob(job)
const prices = clusterPrices(program, clusterOf('h100', 16_384))
const show = (seconds: number) => `${seconds.toFixed(2)} s`

const { step, parts, spansOf } = simulate(program, prices)
console.log(`a step: ${show(step)}, idle in the pipeline ${show(parts.bubble)}, waiting for tp ${show(parts.tp)}`)
console.log(`rank 4711 does ${spansOf(4711).length} things`)

// One rank that is a tenth slower holds up all the others; those that are alike are simulated once.
const slowed = simulate(program, prices, { slow: new Map([[4711, 1.1]]), watch: [] })
console.log(`with one slow rank: ${show(slowed.step)}, ${slowed.roles.length} ranks simulated`)

//> a step: 8.50 s, idle in the pipeline 2.68 s, waiting for tp 0.76 s
//> rank 4711 does 8003 things
//> with one slow rank: 8.72 s, 64 ranks simulated
