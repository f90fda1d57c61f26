/**
 * The time of one kernel: a roofline. Arithmetic at the rate its shape allows, or traffic at the rate the memory
 * allows, whichever takes longer, and never less than the least any kernel takes.
 */
import { precisionFacts } from '../base/index.js'
import type { AttentionPoint, Device } from '../cluster/index.js'
import type { AttentionGeneration, Kernel } from './kernel.js'
import { matmulSeconds } from './matmul.js'
import { apart, bend, interpolate } from './measured.js'
import { peakOf } from './peak.js'

type KernelOf<K extends Kernel['kind']> = Extract<Kernel, { kind: K }>

/** The predicted time of a kernel on a device, in seconds: a roofline with measured efficiency curves. */
export function priceKernel(kernel: Kernel, device: Device): number {
  if (kernel.kind === 'attention' && isWrittenOut(kernel, device)) return writtenOutSeconds(kernel, device)
  const timed = kernel.kind === 'memory' && kernel.op ? device.curves.memory.kernels?.[kernel.op] : undefined
  if (timed) return interpolate(timed, trafficOf(kernel), device.curves.floor)
  const arithmetic =
    kernel.kind === 'matmul'
      ? matmulSeconds(kernel, device)
      : kernel.kind === 'attention'
        ? attentionSeconds(kernel, device)
        : 0
  return Math.max(arithmetic, trafficSeconds(trafficOf(kernel), device), device.curves.floor)
}

/** The same between the other kernels of a training step. */
export function priceInStep(kernel: Kernel, device: Device): number {
  const { matmul, attention } = device.curves
  const isFused = kernel.kind === 'attention' && !isWrittenOut(kernel, device)
  const factor = kernel.kind === 'matmul' ? matmul.inStep : isFused ? attention.inStep : 1
  return priceKernel(kernel, device) * (factor ?? 1)
}

/** FLOPs of a kernel as executed: a multiply-add counts as two, and masked attention scores are left out. */
export function flopsOf(kernel: Kernel): number {
  if (kernel.kind === 'memory') return 0
  if (kernel.kind === 'matmul') return 2 * kernel.batch * kernel.m * kernel.n * kernel.k
  const pairs = kernel.batch * kernel.heads * kernel.queries * kernel.keys * (kernel.causal ? 0.5 : 1)
  // Two products forward; backward makes the scores again and has four products of its own.
  return pairs * kernel.headDim * (kernel.pass === 'forward' ? 4 : 10)
}

/** Bytes a kernel moves through device memory: every operand read once, every result written once. */
export function trafficOf(kernel: Kernel): number {
  if (kernel.kind === 'memory') return kernel.read + kernel.written
  const element = precisionFacts[kernel.precision].bytes
  if (kernel.kind === 'matmul') {
    const { m, n, k, batch, resultBytes } = kernel
    return batch * ((m * k + k * n) * element + m * n * resultBytes)
  }
  const { batch, heads, kvHeads, queries, keys, headDim } = kernel
  const once = batch * headDim * (2 * heads * queries + 2 * kvHeads * keys) * element
  return kernel.pass === 'forward' ? once : 2.5 * once
}

const trafficSeconds = (bytes: number, device: Device): number =>
  bytes === 0 ? 0 : (bytes + device.curves.memory.half) / (device.bandwidth * device.curves.memory.efficiency)

/** Scores are computed in blocks of this many queries and keys: those the mask cuts through are computed whole. */
const block = 128

type Attention = KernelOf<'attention'>

export function attentionSeconds(kernel: Attention, device: Device): number {
  const points = (device.curves.attention.measured ?? []).filter(({ pass }) => pass === kernel.pass)
  const modelled = modelledSeconds(kernel, device)
  // The age of the kernel is not what was measured: it stays in the model.
  return points.length === 0 ? modelled : modelled * bend(points.map(point => nearness(kernel, point, device)))
}

/** With dropout scores are written out, but where it was timed: fused ops of GPUs draw other numbers than every plan would. */
const isWrittenOut = (kernel: Attention, device: Device): boolean =>
  kernel.dropout === true && !device.curves.attention.measured?.some(({ dropout }) => dropout)

/** A number is drawn in the time that so many bytes take: 0.92 ms for 2^28 of them on an H200, emitted. */
const drawnBytes = 14

/** How often a score passes through memory beside its products: by what kernels of such a step took there. */
const scorePasses = { forward: 3.5, backward: 4.5 } as const

function writtenOutSeconds(
  { batch, heads, queries, keys, headDim, pass, precision }: Attention,
  device: Device,
): number {
  const { bytes } = precisionFacts[precision]
  const product = (n: number, k: number): Kernel =>
    ({ kind: 'matmul', m: queries, n, k, batch: batch * heads, precision, resultBytes: bytes }) as const
  const [scores, used] = [product(keys, headDim), product(headDim, keys)]
  const products = pass === 'forward' ? [scores, used] : [scores, scores, used, used, used]
  const read = batch * heads * queries * keys * (scorePasses[pass] * bytes + drawnBytes)
  const kernels: readonly Kernel[] = [...products, { kind: 'memory', read, written: 0 }]
  return kernels.reduce((seconds, kernel) => seconds + priceKernel(kernel, device), 0)
}

function nearness(kernel: Attention, point: AttentionPoint, device: Device) {
  const { seconds, ...shape } = point
  const at: Attention = { ...shape, kind: 'attention', precision: kernel.precision, generation: 'cudnn' }
  const masks = kernel.causal === point.causal ? 0 : 1
  const drops = kernel.dropout === point.dropout ? 0 : 10
  return {
    distance:
      apart(kernel.queries, point.queries) +
      apart(kernel.keys, point.keys) +
      apart(kernel.headDim, point.headDim) +
      // How many heads share keys hardly matters, and what only repeats the work not much.
      0.1 * apart(kernel.heads / kernel.kvHeads, point.heads / point.kvHeads) +
      0.25 * apart(kernel.batch * kernel.heads, point.batch * point.heads) +
      masks +
      drops,
    ratio: seconds / modelledSeconds(at, device),
  }
}

function modelledSeconds(kernel: Attention, device: Device): number {
  const { causal, keys, headDim, pass, precision, generation } = kernel
  const { half = 0, lanes = 1, [pass]: reached } = device.curves.attention
  const padded = lanes * Math.ceil(headDim / lanes)
  const waste = ((causal ? 1 + block / keys : 1) * (padded + half)) / headDim
  const rate = peakOf(device, precision) * reached * ageFactor(generation, pass, device)
  return (flopsOf(kernel) * waste * (kernel.unevenness ?? 1)) / rate
}

/**
 * Of the newest kernel's rate. The second generation does not know the matrix instructions that came with fp8. Dao 2023 gives the
 * first 30 to 50 % of an A100 forward and 25 to 35 % backward, where the second has 50 to 73 % and up to 63 %.
 */
function ageFactor(generation: AttentionGeneration, pass: Attention['pass'], device: Device): number {
  const second = device.peak.fp8 === undefined ? 1 : 0.62
  return generation === 'cudnn' ? 1 : generation === 'flash-2' ? second : firstGeneration[pass] * second
}

/** Of its successor's rate. Of six pairs the one that is best on the marked rows of Mosaic. */
const firstGeneration = { forward: 0.7, backward: 0.55 } as const
