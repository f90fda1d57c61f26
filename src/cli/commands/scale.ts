/** lockstep scale: strong and weak scaling, and the limit of Amdahl's law. */
import { scaled, showPercent, showSeconds, showWhole, table } from '../../base/index.js'
import type { Precision } from '../../cluster/index.js'
import { planInput } from '../../estimate/index.js'
import { type Amdahl, type ScalePoint, type Scaling, scaling } from '../../search/index.js'
import type { Io } from '../io.js'
import { colorsOf } from '../text/colors.js'
import { headline } from '../text/plan-text.js'
import { showMesh } from '../text/plan-words.js'
import { type Planning, type PlanningOptions, planningOf } from '../text/planning.js'
import { withProgress } from '../text/progress.js'

export interface ScaleOptions extends PlanningOptions {
  readonly devices: readonly number[]
  readonly json?: boolean
}

export async function scaleCommand(options: ScaleOptions, io: Io): Promise<number> {
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
    `${bold('Strong scaling')} (same global batch, estimated)`,
    ...curve(strong),
    '',
    `${bold('Weak scaling')} (global batch grows with the devices, estimated)`,
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
  if (serial === 0) return 'none found: the whole step scales'
  return (
    `${showSeconds(serial)}/step do not scale (${showPercent(fraction, fraction < 0.001 ? 3 : 1)} of the first point): ` +
    `at most ${showWhole(Math.round(limit))}x faster`
  )
}

const asJson = ({ strong, weak, amdahl }: Scaling, precision: Precision) => {
  const point = ({ best, ...rest }: ScalePoint) => ({
    ...rest,
    ...(best && { step: best.estimate.step, bytes: best.bytes, plan: planInput(best.split, precision) }),
  })
  return { strong: strong.map(point), weak: weak.map(point), ...(amdahl && { amdahl }) }
}
