/**
 * The kernels of a rank's step with their arithmetic intensity: FLOP for each byte that passes through the device's memory.
 * A kernel above the device's ridge point (peak FLOP/s / bandwidth) is bound by arithmetic, one below it by memory.
 */
import type { Device, Precision } from '../cluster/index.js'
import { flopsOf, isKernel, peakOf, trafficOf, workOf } from '../cost/index.js'
import type { Instr, Program, Segment } from '../ir/index.js'
import type { Prices } from './prices.js'

/** FLOPs, bytes and time of one kind of kernel on a rank: a point of the roofline plot. */
export interface KernelLoad {
  /** 'matmul, forward' */
  readonly what: string
  readonly count: number
  readonly flops: number
  /** Every operand once, every result once. */
  readonly bytes: number
  /** Total, if each has the device to itself. */
  readonly seconds: number
}

/** The ridge point of a device's roofline, in FLOP/byte. */
export const ridgeOf = (device: Device, precision: Precision): number => peakOf(device, precision) / device.bandwidth

/** The kernels of the ranks of one pipeline coordinate, most time first. */
export function kernelLoads(program: Program, prices: Prices, pp: number, multiply?: Precision): KernelLoad[] {
  const ofSegment = new Map<string, readonly KernelLoad[]>()
  const loadsOf = (segment: Segment): readonly KernelLoad[] =>
    segment.instrs.flatMap(instr => {
      const work = workOf(instr, segment, { mesh: program.mesh, multiply })
      if (!isKernel(work)) return []
      const seconds = prices.compute(instr, segment)
      return [{ what: nameOf(instr, segment), count: 1, flops: flopsOf(work), bytes: trafficOf(work), seconds }]
    })
  const found = new Map<string, KernelSum>()
  for (const step of program.streams[pp].steps) {
    if (step.kind !== 'call') continue
    const loads = ofSegment.get(step.segment) ?? loadsOf(program.segments[step.segment])
    ofSegment.set(step.segment, loads)
    for (const load of loads) {
      const sum = found.get(load.what)
      if (sum) addTo(sum, load)
      else found.set(load.what, { ...load })
    }
  }
  return [...found.values()].filter(({ seconds }) => seconds > 0).sort((a, b) => b.seconds - a.seconds)
}

const phaseWords: Readonly<Partial<Record<Segment['phase'], string>>> = {
  F: 'forward',
  B: 'backward',
  I: 'backward',
  W: 'backward',
}

const nameOf = ({ kind }: Instr, { phase }: Segment): string =>
  `${kind === 'contract' ? 'matmul' : kind}, ${phaseWords[phase] ?? 'once per step'}`

type KernelSum = { -readonly [Field in keyof KernelLoad]: KernelLoad[Field] }

function addTo(sum: KernelSum, { count, flops, bytes, seconds }: KernelLoad): void {
  sum.count += count
  sum.flops += flops
  sum.bytes += bytes
  sum.seconds += seconds
}
