// The planner prices every way to split a model over a cluster, simulates the best and compiles those it lists.
import { clusterOf, findPlans, ModelConfig, neighboursOf, presets, requestOf, showSentence } from '../src/index.js'

const request = requestOf({
  ...{ model: ModelConfig.parse(presets['llama3-8b']), seq: 8192, globalBatch: 128 },
  ...{ cluster: clusterOf('h100', 32), constraints: ['schedule=1f1b|interleaved', 'memory<=70GiB'] },
})
const { found, listed } = findPlans(request, { top: 3, simulate: 20 })
console.log(`${found.counts.considered} plans considered, ${listed.length} listed`)

const GiB = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`
for (const { plan, simulated } of listed) {
  const { tp, pp, dp, zero, microbatch, recompute } = plan.split
  console.log(`tp ${tp}, pp ${pp}, dp ${dp}, ZeRO-${zero}, microbatch ${microbatch}, recompute ${recompute}`)
  console.log(`  priced ${plan.estimate.step.toFixed(2)} s, ${GiB(plan.bytes)} a rank`)
  if (simulated) console.log(`  simulated ${simulated.step.toFixed(2)} s, compiled ${GiB(simulated.arena)}`)
}

const unfit = neighboursOf(request, listed[0].plan).filter(({ verdict }) => verdict.kind === 'unfit')
console.log(`next to the first, but too large: ${unfit.map(({ move }) => showSentence(move.change)).join('; ')}`)

//> 22878 plans considered, 3 listed
//> tp 1, pp 1, dp 32, ZeRO-2, microbatch 1, recompute none
//>   priced 3.28 s, 60.8 GiB a rank
//>   simulated 3.29 s, compiled 60.8 GiB
//> tp 1, pp 1, dp 32, ZeRO-3, microbatch 1, recompute none
//>   priced 3.34 s, 47.7 GiB a rank
//>   simulated 3.35 s, compiled 47.7 GiB
//> tp 1, pp 1, dp 32, ZeRO-2, microbatch 1, recompute selective
//>   priced 3.41 s, 58.8 GiB a rank
//>   simulated 3.42 s, compiled 58.8 GiB
//> next to the first, but too large: microbatch 2; zero 0; zero 1; zero 2, reduce step
