/** lockstep scale: how a job grows with the cluster, strong and weak, and the limit Amdahl's law sets. */
import { type Command, InvalidArgumentError } from 'commander'
import { parseCount, table } from '../../base/index.js'
import type { Precision } from '../../cluster/index.js'
import { type Amdahl, planInput, type ScalePoint, type Scaling, scaling } from '../../search/index.js'
import type { Io } from '../io.js'
import { colorsOf } from '../text/colors.js'
import { scaled, showPercent, showSeconds } from '../text/numbers.js'
import { headline } from '../text/plan-text.js'
import { showMesh } from '../text/plan-words.js'
import { type Planning, type PlanningOptions, planningOf, planningOptions } from '../text/planning.js'
import { withProgress } from '../text/progress.js'

interface ScaleOptions extends PlanningOptions {
  readonly devices: readonly number[]
  readonly json?: boolean
}

const help = `
Example:
  lockstep scale --model llama3-70b --cluster h100 --devices 64,128,256,512,1024 --seq 8192 --global-batch 512

Strong: the same batch on more devices. Weak: a batch that grows with them, the given one at the fewest devices.
Exit code 0: fine, 1: the request has problems or nothing fits anywhere, 2: usage error.`

export function registerScale(program: Command, io: Io, done: (code: number) => void): void {
  planningOptions(
    program
      .command('scale')
      .summary('strong and weak scaling, with their limit')
      .description(
        'Finds the best plan for each size of a cluster: how speed grows with devices, and where it stops growing.',
      ),
  )
    .requiredOption('--devices <list>', 'numbers of devices, such as 8,16,32', counts)
    .option('--json', 'everything as JSON')
    .addHelpText('after', help)
    .action(async (options: ScaleOptions) => done(await scaleCommand(options, io)))
}

function counts(text: string): number[] {
  const parts = text.split(',').map(part => parseCount(part, 1024))
  const wrong = parts.findIndex(part => !part || part >= 1e7)
  if (wrong >= 0) throw new InvalidArgumentError('expected numbers such as 8,16,1k.')
  return parts.map(Number)
}

async function scaleCommand(options: ScaleOptions, io: Io): Promise<number> {
  const planning = planningOf(options, Math.min(...options.devices), io)
  const { request, clusterAt } = planning
  const { devices } = options
  const found = await withProgress(io, progress => {
    progress.expect({ searching: 1 })
    return progress.run('searching', scaling({ request, devices, clusterAt }))
  })
  if (options.json) io.out(`${JSON.stringify(asJson(found, request.precision), null, 2)}\n`)
  else io.out(asText(planning, found, io))
  return found.strong.some(({ best }) => best) || found.weak.some(({ best }) => best) ? 0 : 1
}

function asText(planning: Planning, { strong, weak, amdahl }: Scaling, io: Io): string {
  const { bold } = colorsOf(io)
  return [
    headline(planning, bold),
    '',
    `${bold('Strong scaling')}: the same batch`,
    ...curve(strong),
    '',
    `${bold('Weak scaling')}: a batch that grows with the devices`,
    ...curve(weak),
    '',
    ...(amdahl ? [`${bold("Amdahl's limit")}: ${limit(amdahl)}`] : []),
    '',
  ].join('\n')
}

const barWidth = 20

/** The bar is the efficiency: full where twice the devices are twice as fast. */
function curve(points: readonly ScalePoint[]): string[] {
  const rows = points.map(({ devices, globalBatch, best, tokensPerSecond, speedup = 0, efficiency = 0 }) => {
    if (!best || tokensPerSecond === undefined) return [devices, globalBatch, '-', '-', '-', '', 'nothing fits']
    const full = Math.min(barWidth, Math.round(barWidth * efficiency))
    const bar = `${'#'.repeat(full)}${'.'.repeat(barWidth - full)} ${showPercent(efficiency, 0)}`
    const { step } = best.estimate
    return [
      devices,
      globalBatch,
      showSeconds(step),
      scaled(tokensPerSecond),
      speedup.toFixed(2),
      bar,
      showMesh(best.split),
    ]
  })
  return table(['devices', 'batch', 'step', 'tokens/s', 'speedup', 'efficiency', 'best plan'], rows).split('\n')
}

function limit({ serial, fraction, limit }: Amdahl): string {
  if (serial === 0) return 'none in sight: no part of the step stays as it is'
  return (
    `${showSeconds(serial)} of a step stay however many devices share it ` +
    `(${showPercent(fraction, fraction < 0.001 ? 3 : 1)} of the first):\n  it never gets more than ${Math.round(limit).toLocaleString('en-US')} times as fast`
  )
}

const asJson = ({ strong, weak, amdahl }: Scaling, precision: Precision) => {
  const point = ({ best, ...rest }: ScalePoint) => ({
    ...rest,
    ...(best && { step: best.estimate.step, bytes: best.bytes, plan: planInput(best.split, precision) }),
  })
  return { strong: strong.map(point), weak: weak.map(point), ...(amdahl && { amdahl }) }
}
