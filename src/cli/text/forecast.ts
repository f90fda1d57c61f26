/** What a simulated step means, in sentences for people. */
import {
  coordinatesOf,
  type Elsewhere,
  printable,
  type Rank,
  rankAt,
  scaled,
  showBytes,
  showCount,
  showTime,
  showWhole,
  table,
  wrapped,
} from '../../base/index.js'
import { kinds, type Program } from '../../ir/index.js'
import { partNames, partTitles } from '../../metrics/index.js'
import { boxesOf, idleLetter, stepRow } from '../../report/index.js'
import type { Forecast } from '../../search/index.js'
import type { Simulation } from '../../simulate/index.js'
import type { Io } from '../io.js'
import { colorsOf } from './colors.js'
import { kernelLines, trafficLines } from './loads.js'

/** The ranks of the pipeline that a rank belongs to, first to last. */
export function pipelineOf({ mesh, streams }: Program, through: Rank): Rank[] {
  const at = coordinatesOf(mesh, through)
  return streams.map((_, pp) => rankAt(mesh, { ...at, pp }))
}

interface Shown {
  readonly program: Program
  readonly simulation: Simulation
  /** The ranks of the pipeline to draw. */
  readonly ranks: readonly Rank[]
}

export function forecastText(forecast: Forecast, shown: Shown, io: Io): string {
  const { bold, dim } = colorsOf(io)
  const { name, cluster, step, tokensPerSecond, flopsPerDevice, mfu, hfu, precision } = forecast
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`
  const lines = [
    bold(
      `${printable(name)} on ${cluster.devices} x ${cluster.device}: ${showTime(step)}/step, ${scaled(tokensPerSecond)} tokens/s`,
    ),
    `predicted MFU ${percent(mfu.palm)} (${percent(mfu.causal)} with causal attention FLOPs), HFU ${percent(hfu)}; ${scaled(flopsPerDevice, ' ')}FLOP/s per device, ${precision}`,
    ...wrapped(`MFU counts ${forecast.flopsDefinition} (PaLM); HFU adds recomputation`).map(dim),
    ...calibration(forecast),
    '',
    bold('Time breakdown (mean over ranks)'),
    partsTable(forecast),
    ...bubbleLines(forecast),
    ...expertLines(forecast),
    '',
    ...linkLines(forecast),
    ...trafficLines(forecast.load),
    ...kernelLines(forecast.load),
    ...memoryLines(forecast),
    ...failureLines(forecast),
    ...runLines(forecast),
    '',
    ...timeline(shown, io),
  ]
  return `${lines.join('\n')}\n`
}

function calibration({ scale, measuredStep }: Forecast): string[] {
  if (measuredStep === undefined) return scale === 1 ? [] : [`all estimates x ${scale.toFixed(3)}`]
  return [
    `measured ${showTime(measuredStep)}/step: all estimates x ${scale.toFixed(3)}; for other plans on this cluster: --scale ${scale.toFixed(3)}`,
  ]
}

const barWidth = 30

function partsTable({ parts, step }: Forecast): string {
  const rows = partNames
    .filter(part => parts[part] > 0)
    .map(part => {
      const share = parts[part] / step
      return [
        partTitles[part],
        showTime(parts[part]),
        `${(100 * share).toFixed(1)} %`,
        '█'.repeat(Math.round(share * barWidth)),
      ]
    })
  return table(['part', 'time', 'share', ''], rows)
}

/** The bubble by both of its definitions; none without a pipeline. */
function bubbleLines({ bubble, stages }: Forecast): string[] {
  if (stages.length === 1) return []
  const share = (of: number) => `${(100 * of).toFixed(1)} %`
  return [`bubble: ${share(bubble.mean)} mean over ranks, ${share(bubble.criticalPath)} on the critical path`]
}

/** Rows without a token are multiplied too. */
const expertLines = ({ expertRows }: Forecast): string[] =>
  expertRows === undefined || expertRows === 1
    ? []
    : [`experts compute ${showCount(expertRows)} times the rows of a balanced load (plan.expertCapacity)`]

function linkLines({ links, load }: Forecast): string[] {
  if (links.length === 0) return []
  const rows = links.map(({ level, link, bytes, utilization }) => [
    `${level} (${link})`,
    showBytes(bytes),
    `${(100 * utilization).toFixed(1)} %`,
  ])
  return [table([`links (a rank of pp ${load.pp})`, 'sent per step', 'utilization'], rows), '']
}

function memoryLines(forecast: Forecast): string[] {
  const { pp, arena, peak, usable, ...elsewhere } = forecast.memory
  const parts = kinds.filter(kind => peak[kind] > arena / 1000).map(kind => `${kind} ${showBytes(peak[kind])}`)
  const verdict = arena <= usable ? 'fits' : `does not fit: ${showBytes(arena - usable)} over`
  return [
    `Peak memory (pp ${pp}, the largest): ${showBytes(arena)} of ${showBytes(usable)} usable, ${verdict}`,
    ...wrapped(`  ${parts.join(', ')}`),
    ...roomLines('host', elsewhere.host, elsewhere.usableHost),
    ...roomLines('disk', elsewhere.disk, elsewhere.usableDisk),
    ...slowDisk(forecast),
  ]
}

/** Where the cluster does not say what is behind a device, there is nothing to compare with. */
function roomLines(space: Elsewhere, bytes: number | undefined, usable: number | undefined): string[] {
  if (bytes === undefined) return []
  const most = `Peak ${space} memory per rank: ${showBytes(bytes)}`
  if (usable === undefined) return [most]
  return [
    `${most} of ${showBytes(usable)}, ${bytes <= usable ? 'fits' : `does not fit: ${showBytes(bytes - usable)} over`}`,
  ]
}

/** A disk whose transfers take more than half of the step. */
function slowDisk({ memory: { disk }, parts: { offload }, step }: Forecast): string[] {
  if (disk === undefined || 2 * offload < step) return []
  const share = `${showTime(offload)} of ${showTime(step)}`
  return [
    `The disk is too slow: ranks wait ${share} for it. Try plan.offload.optimizer: host, zero 1 with more dp,`,
    '  larger batches, or faster disks (disk.read and disk.write of the cluster).',
  ]
}

function failureLines({ failures }: Forecast): string[] {
  if (!failures) return []
  const { mtbf, interval, young, daly, share } = failures
  const given = interval === daly ? '' : `, optimal every ${longTime(daly)}`
  return [
    `Goodput ${(100 * share).toFixed(1)} %: a failure every ${longTime(mtbf)}, a checkpoint every ${longTime(interval)}${given} (Young ${longTime(young)}, Daly ${longTime(daly)})`,
  ]
}

function runLines({ run }: Forecast): string[] {
  if (!run) return []
  const money = run.dollars === undefined ? '' : `, $${showCount(run.dollars)}`
  return [
    `${showCount(run.tokens)} tokens: ${showWhole(run.steps)} steps, ${run.days.toFixed(1)} days, ${showCount(run.deviceHours)} device-hours${money}`,
  ]
}

const mostRows = 32

function timeline({ program, simulation, ranks: all }: Shown, io: Io): string[] {
  const { dim, blue, yellow, green, magenta } = colorsOf(io)
  const ranks = all.slice(0, mostRows)
  const label = Math.max(...ranks.map(rank => String(rank).length))
  const columns = Math.max(20, Math.min(160, io.terminal()?.columns ?? 100) - label - 6)
  const paint = (text: string) =>
    text
      .replaceAll(/F+/g, run => blue(run))
      .replaceAll(/[BI]+/g, run => yellow(run))
      .replaceAll(/W+/g, run => green(run))
      .replaceAll(/o+/g, run => magenta(run))
      .replaceAll(new RegExp(`${idleLetter}+`, 'g'), run => dim(run))
  const rows = ranks.map(rank => {
    const { work } = boxesOf(program, simulation.spansOf(rank), simulation.step)
    const row = stepRow(work, simulation.step, columns)
    return `rank ${String(rank).padStart(label)} ${io.colors ? paint(row) : row}`
  })
  return [
    dim('Timeline, one rank per pipeline stage:'),
    dim(`F forward, B backward (I input, W weight gradient), o optimizer, - other, ${idleLetter} idle`),
    ...rows,
  ]
}

function longTime(time: number): string {
  if (time < 120) return showTime(time)
  return time < 7200
    ? `${(time / 60).toFixed(1)} min`
    : time < 172_800
      ? `${(time / 3600).toFixed(1)} h`
      : `${(time / 86_400).toFixed(1)} days`
}
