// Plans for every number of devices: searches, compiles what is listed, and checks that nothing is NaN and that every
// listed plan was compiled and fits. Prints a line per search and a summary; exits 1 if anything is wrong.
// Usage: node validation/plans.mjs [--every 1] [--part 0/1] [--models llama3-8b,llama3-70b] [--clusters h100,a100,mi300x,tpu-v5p]
// `--part 3/16` does the third (from 0) of sixteen shares, for as many processes.
import { parseArgs } from 'node:util'
import { clusterOf, findPlans, ModelConfig, ProblemsError, presets, requestOf } from '../dist/src/index.js'

const { values } = parseArgs({
  options: {
    every: { type: 'string', default: '1' },
    part: { type: 'string', default: '0/1' },
    models: { type: 'string', default: 'llama3-8b,llama3-70b' },
    clusters: { type: 'string', default: 'h100,a100,mi300x,tpu-v5p' },
  },
})
const larger = [
  144, 160, 192, 224, 240, 256, 320, 384, 480, 512, 640, 768, 960, 1024, 1536, 2048, 3072, 4096, 8192, 16384,
]
const counts = [...Array(128).keys()]
  .map(i => i + 1)
  .concat(larger)
  .filter((_, i) => i % Number(values.every) === 0)

const [part, parts] = values.part.split('/').map(Number)
const questions = values.models
  .split(',')
  .flatMap(model => values.clusters.split(',').flatMap(device => counts.map(devices => ({ model, device, devices }))))
  .filter((_, i) => i % parts === part)

const wrong = []
/** At once: of a sweep that is broken off its lines are what is left. */
const tell = line => {
  wrong.push(line)
  console.log(`wrong: ${line}`)
}
let [searches, listed, unfit] = [0, 0, 0]
for (const { model, device, devices } of questions) {
  const where = `${model} on ${devices} ${device}`
  const started = process.cpuUsage()
  try {
    const cluster = clusterOf(device, devices)
    const request = requestOf({
      model: ModelConfig.parse(presets[model]),
      seq: 8192,
      globalBatch: devices * 4,
      cluster,
    })
    const answer = findPlans(request, { top: 5, simulate: 20, front: false })
    searches++
    if (answer.listed.length === 0) unfit++
    for (const { plan, simulated } of answer.listed) {
      listed++
      if (!simulated) tell(`${where}: a plan is listed that was not compiled`)
      else if (!(simulated.step > 0 && simulated.arena > 0))
        tell(`${where}: ${simulated.step} s, ${simulated.arena} bytes`)
      else if (!simulated.fits) tell(`${where}: a plan is listed that does not fit`)
      if (!Number.isFinite(plan.estimate.step)) tell(`${where}: priced ${plan.estimate.step} s`)
    }
    const { user, system } = process.cpuUsage(started)
    console.log(
      `${where}: ${answer.listed.length} listed, ${answer.failed.length} left out, ${((user + system) / 1e6).toFixed(1)} s`,
    )
  } catch (error) {
    if (error instanceof ProblemsError) {
      unfit++
      console.log(`${where}: ${error.message.split('\n')[0]}`)
    } else tell(`${where}: ${error.stack}`)
  }
}
console.log(
  `${searches} searches, ${listed} plans listed, all compiled; ${unfit} where nothing fits; ${wrong.length} wrong`,
)
process.exit(wrong.length > 0 ? 1 : 0)
