// The planner prices every way to split a model over a cluster, simulates the best and compiles those it lists.
import { clusterOf, ModelConfig, neighboursOf, planFor, presets, requestOf } from '../src/index.js'

const request = requestOf({
  ...{ model: ModelConfig.parse(presets['llama3-8b']), seq: 8192, globalBatch: 128 },
  ...{ cluster: clusterOf('h100', 32), constraints: ['schedule=1f1b|interleaved', 'memory<=70GiB'] },
})
const ranking = await planFor(request, { top: 3, simulate: 20 })
if (!ranking) throw new Error('nothing fits')
const { considered, priced } = ranking.found.counts
console.log(`${considered} plans considered, ${priced} priced, ${ranking.outlined.length} simulated`)

const GiB = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`
for (const { plan, simulated } of ranking.listed) {
  const { tp, pp, dp, zero, microbatch, recompute } = plan.split
  console.log(`tp ${tp}, pp ${pp}, dp ${dp}, ZeRO-${zero}, microbatch ${microbatch}, recompute ${recompute}`)
  console.log(`  priced ${plan.estimate.step.toFixed(2)} s, ${GiB(plan.bytes)} a rank`)
  if (simulated) console.log(`  simulated ${simulated.step.toFixed(2)} s, compiled ${GiB(simulated.arena)}`)
}

const unfit = neighboursOf(request, ranking.listed[0].plan).filter(({ verdict }) => verdict.kind === 'unfit')
console.log(`next to the first, but too large: ${unfit.map(({ move }) => move.name).join('; ')}`)
