// The search prices every way to split a model over a cluster. What it finds is a job: it compiles, and can be simulated.
import { clusterOf, ModelConfig, neighboursOf, presets, requestOf, search, simulatedPlans } from '../src/index.js'

const request = requestOf({
  ...{ model: ModelConfig.parse(presets['llama3-8b']), seq: 8192, globalBatch: 128 },
  ...{ cluster: clusterOf('h100', 32), constraints: ['schedule=1f1b|interleaved', 'memory<=70GiB'] },
})
const { best, front, counts } = search(request, { keep: 10 })
console.log(`${counts.considered} plans considered, ${counts.priced} priced, ${front.length} on the front`)

const [fastest] = best
const { tp, pp, dp, zero, microbatch, recompute } = fastest.split
console.log(`tp ${tp}, pp ${pp}, dp ${dp}, ZeRO-${zero}, microbatch ${microbatch}, recompute ${recompute}`)
console.log(`priced ${fastest.estimate.step.toFixed(2)} s, ${(fastest.bytes / 2 ** 30).toFixed(1)} GiB a rank`)

for (const { step, arena, fits } of simulatedPlans(request, [fastest]))
  console.log(`simulated ${step.toFixed(2)} s, ${(arena / 2 ** 30).toFixed(1)} GiB a rank, it fits: ${fits}`)

const unfit = neighboursOf(request, fastest).filter(({ verdict }) => verdict.kind === 'unfit')
console.log(`next to it, but too large: ${unfit.map(({ move }) => move.name).join('; ')}`)

//> 21456 plans considered, 13253 priced, 69 on the front
//> tp 1, pp 2, dp 16, ZeRO-1, microbatch 1, recompute none
//> priced 3.57 s, 68.1 GiB a rank
//> simulated 3.61 s, 69.1 GiB a rank, it fits: true
//> next to it, but too large: dp x2, pp /2; microbatch 2; zero 0; layers 0..0
