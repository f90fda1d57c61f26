/** What `scripts/measure.py` found out about an accelerator, and its points in the form that curves are written in. */
import { z } from 'zod'
import { mean, median, type Problem, problemsOf } from '../base/index.js'
import type { CollectivePoint } from './cluster.js'
import { collectiveKinds } from './collective-kinds.js'
import { type AttentionPoint, type Curves, type Device, type MatmulPoint, precisions } from './device.js'
import { findEntry } from './lookup.js'

const count = z.int().min(1)
const seconds = z.number().positive()

/** Loose: a newer script may measure more. */
export const Measurements = z.looseObject({
  format: z.literal('lockstep-measured/1'),
  device: z.string(),
  torch: z.string(),
  date: z.string(),
  units: count,
  /** Bytes of memory in all, and what the context holds of them. */
  total: z.number().positive().optional(),
  context: z.number().min(0).optional(),
  launch: z.looseObject({ floor: seconds, eager: seconds }),
  memory: z.array(z.looseObject({ kernel: z.string(), bytes: z.number().positive(), seconds })).min(1),
  matmul: z.array(z.looseObject({ m: count, n: count, k: count, precision: z.enum(precisions), seconds })).min(1),
  sustained: z.looseObject({ m: count, n: count, k: count, seconds }).optional(),
  attention: z.array(
    z.looseObject({
      ...{ op: z.string(), pass: z.enum(['forward', 'backward']), batch: count, heads: count, kvHeads: count },
      ...{ queries: count, keys: count, headDim: count, causal: z.boolean(), seconds },
    }),
  ),
  collectives: z
    .array(
      z.looseObject({ kind: z.enum(collectiveKinds), ranks: z.int().min(2), bytes: z.number().positive(), seconds }),
    )
    .default([]),
})
export type Measurements = z.output<typeof Measurements>

export interface ParsedMeasurements {
  readonly measured?: Measurements
  readonly problems: readonly Problem[]
}

export function parseMeasured(value: unknown): ParsedMeasurements {
  const parsed = Measurements.safeParse(value)
  return parsed.success
    ? { measured: parsed.data, problems: [] }
    : { problems: problemsOf(parsed.error.issues, Measurements, value) }
}

export const collectivesOf = ({ collectives }: Measurements): CollectivePoint[] =>
  collectives.map(({ kind, ranks, bytes, seconds }) => ({ kind, ranks, bytes, seconds }))

/** 'NVIDIA H200' -> the entry of h200: the last word of the driver's name that the catalog knows. */
export function knownAs({ device }: Measurements): Device | undefined {
  const words = device.toLowerCase().split(/[\s_-]+/)
  const name = words.findLast(word => findEntry(word))
  return name === undefined ? undefined : findEntry(name)?.device
}

/** Each product once: layouts of its operands that were timed apart are averaged. */
export function matmulPoints({ matmul }: Measurements): MatmulPoint[] {
  const found = new Map<string, MatmulPoint[]>()
  for (const { m, n, k, precision, seconds } of matmul) {
    const key = `${m} ${n} ${k} ${precision}`
    found.set(key, [...(found.get(key) ?? []), { m, n, k, precision, seconds }])
  }
  return [...found.values()].map(same => ({ ...same[0], seconds: digits(mean(same.map(point => point.seconds))) }))
}

/** The fastest op for each shape: software that cares picks it. */
export function attentionPoints({ attention }: Measurements): AttentionPoint[] {
  const best = new Map<string, AttentionPoint>()
  for (const { pass, batch, heads, kvHeads, queries, keys, headDim, causal, seconds } of attention) {
    const point = { pass, batch, heads, kvHeads, queries, keys, headDim, causal, seconds: digits(seconds) }
    const key = JSON.stringify({ ...point, seconds: 0 })
    const known = best.get(key)
    if (!known || known.seconds > seconds) best.set(key, point)
  }
  return [...best.values()]
}

/** The share of the bandwidth that large kernels reach, and the bytes at which half of that is reached. */
export function memoryCurve({ memory }: Measurements, bandwidth: number): { efficiency: number; half: number } {
  const rate = ({ bytes, seconds }: { bytes: number; seconds: number }) => bytes / seconds
  const streaming = memory.filter(({ kernel }) => kernel === 'copy' || kernel === 'add')
  const largest = Math.max(...streaming.map(({ bytes }) => bytes))
  const best = median(streaming.filter(({ bytes }) => bytes > largest / 8).map(rate))
  // bytes + half = seconds x best: every kernel that is not yet at its best says how much is missing.
  const missing = streaming
    .filter(point => rate(point) < 0.9 * best)
    .map(({ bytes, seconds }) => seconds * best - bytes)
  return {
    efficiency: digits(Math.min(1, best / bandwidth)),
    half: Math.round(missing.length === 0 ? 0 : Math.max(0, median(missing))),
  }
}

export function kernelCurves({ memory }: Measurements): NonNullable<Curves['memory']['kernels']> {
  const kernels: Record<string, [number, number][]> = {}
  for (const { kernel, bytes, seconds } of [...memory].sort((a, b) => a.bytes - b.bytes))
    (kernels[kernel] ??= []).push([bytes, digits(seconds)])
  return kernels
}

/** Four digits: no clock is better, and files are read by people. */
export const digits = (value: number): number => Number(value.toPrecision(4))
