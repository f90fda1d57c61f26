/**
 * The device that was measured. Where the catalog knows it, its data sheet, memory and price are kept and the curves are
 * replaced; of an unknown one the best measured rates count as its peaks.
 */
import {
  attentionPoints,
  type Cluster,
  clusterOf,
  collectivesOf,
  type Device,
  digits,
  kernelCurves,
  knownAs,
  type Measurements,
  matmulPoints,
  memoryCurve,
} from '../cluster/index.js'
import { fitAttention, fitMatmul } from '../cost/index.js'

export function measuredDevice(measured: Measurements): Device {
  const known = knownAs(measured) ?? unknownDevice(measured)
  const base: Device = { ...known, curves: { ...known.curves, floor: digits(measured.launch.floor) } }
  const evidence = `measured on ${measured.device} with PyTorch ${measured.torch}, ${measured.date}: ${measured.matmul.length} matmuls, ${measured.attention.length} attention kernels, ${measured.memory.length} memory-bound kernels`
  return {
    ...base,
    ...(measured.total !== undefined && { memory: measured.total }),
    curves: {
      matmul: fitMatmul(matmulPoints(measured), base, measured.units),
      attention: fitAttention(attentionPoints(measured), base, 'bf16', measured.units),
      memory: { ...memoryCurve(measured, base.bandwidth), kernels: kernelCurves(measured) },
      floor: base.curves.floor,
    },
    sources: [...known.sources, evidence],
  }
}

/** One node of it, with what was measured between its devices. */
export function measuredCluster(measured: Measurements): Cluster {
  const device = measuredDevice(measured)
  const points = collectivesOf(measured)
  const ranks = Math.max(1, ...points.map(point => point.ranks))
  const { topology, host } = clusterOf(knownAs(measured)?.name ?? 'h100', ranks)
  const [near] = topology.kind === 'tree' ? topology.levels : []
  return {
    name: device.name,
    device,
    devices: ranks,
    topology: near ? { kind: 'tree', levels: [{ ...near, ...(points.length > 0 && { measured: points }) }] } : topology,
    ...(host && { host }),
    sources: device.sources,
  }
}

function unknownDevice({ device, matmul, memory, total = 16e9 }: Measurements): Device {
  const rates = matmul.map(({ m, n, k, precision, seconds }) => ({ precision, rate: (2 * m * n * k) / seconds }))
  const peak = Object.fromEntries(
    rates.toSorted((a, b) => a.rate - b.rate).map(({ precision, rate }) => [precision, digits(rate)]),
  )
  return {
    name: device.toLowerCase().replace(/[^a-z0-9.]+/g, '-'),
    title: device,
    peak,
    bandwidth: digits(Math.max(...memory.map(({ bytes, seconds }) => bytes / seconds))),
    memory: total,
    reserve: { bytes: 3 * 2 ** 30, fraction: 0.05 },
    curves: {
      matmul: { efficiency: {}, tile: [128, 128], units: 1, halfK: 0, measured: [] },
      attention: { forward: 0.5, backward: 0.4 },
      memory: { efficiency: 1, half: 0 },
      floor: 2e-6,
    },
    sources: [`${device}: peaks are the best rates that were measured`],
  }
}
