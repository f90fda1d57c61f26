/** Published runs beside ours, and two that were published without a step to compare with: Yi, and Gemini's torus. */
import {
  cases,
  clusterOf,
  clusterPrices,
  compareCase,
  type FrameworkName,
  frameworks,
  type Parts,
  priceOf,
  ratesOf,
  ratesOfPlan,
  requestOfJob,
  rowsOf,
  simulate,
  splitOf,
  type Timed,
  workOfJob,
} from 'lockstep'
import llama from '../../validation/llama3.csv?raw'
import tpus from '../../validation/maxtext.csv?raw'
import experts from '../../validation/megatron-moe.csv?raw'
import megatron from '../../validation/sc21-table1.csv?raw'
import { type JobText, jobOf, programOf } from './jobs.js'

const files: Readonly<Record<string, string>> = {
  'sc21-table1.csv': megatron,
  'llama3.csv': llama,
  'megatron-moe.csv': experts,
  'maxtext.csv': tpus,
}

/** One published row: what was reached, and what our prices say of the same plan. */
export interface PublishedRow {
  /** A name of `lockstep case`. */
  readonly name: string
  readonly device: string
  readonly devices: number
  /** `tp 8 pp 16 dp 128` */
  readonly plan: string
  readonly seq: number
  readonly published: number
  readonly ours: number
  /** FLOP/s of a device. */
  readonly publishedRate?: number
  readonly ourRate?: number
  readonly error: number
  /** A constant of the prices was fitted on it. */
  readonly fitted: boolean
  readonly source: string
}

export type Family = 'megatron' | 'llama3' | 'deepseek' | 'maxtext'

export const published = ({ family }: { readonly family: Family }): PublishedRow[] =>
  Object.entries(cases)
    .filter(([name]) => name.startsWith(family))
    .flatMap(([name, found]) => compareCase(found, rowsOf(files[found.file]!)).timed.map(timed => rowOf(name, timed)))

function rowOf(name: string, { row, setup, measured, predicted, error, fitted }: Timed): PublishedRow {
  const { cluster, split } = setup
  const rate = row.reported_tflops_per_gpu
  return {
    ...{ name, device: cluster.device.name, devices: cluster.devices, plan: planOf(split), seq: row.seq_len ?? 0 },
    ...{ published: measured, ours: predicted, error, fitted, source: row.source ?? '' },
    // The same FLOPs, in the time that we say.
    ...(rate !== undefined && { publishedRate: rate * 1e12, ourRate: (rate * 1e12 * measured) / predicted }),
  }
}

const planOf = (split: Timed['setup']['split']): string =>
  (['tp', 'cp', 'ep', 'pp', 'dp'] as const)
    .filter(axis => split[axis] > 1)
    .map(axis => `${axis} ${split[axis]}`)
    .join(' ')

export interface Tried {
  readonly label: string
  readonly step: number
  readonly mfu: number
  /** Waiting for tp, as a share of the step; idle in the pipeline. */
  readonly tp: number
  readonly bubble: number
  /** Bytes of the rank that needs most. */
  readonly arena: number
  readonly job: JobText
}

function tried(label: string, job: JobText, device: string): Tried {
  const program = programOf(job)
  const { tp = 1, pp = 1, dp = 1 } = job.plan as Readonly<Record<string, number>>
  const cluster = clusterOf(device, tp * pp * dp)
  const simulation = simulate(program, clusterPrices(program, cluster), { watch: [] })
  const { step, parts } = simulation
  const { mfu } = ratesOf(step, workOfJob({ job: jobOf(job), program, cluster, simulation }))
  return {
    ...{ label, step, mfu, tp: parts.tp / step },
    ...{ bubble: parts.bubble / step, arena: Math.max(...program.streams.map(({ arena }) => arena)), job },
  }
}

/** Sizes of Yi-34B, as its configuration says; ZeRO-1 with tensors inside the node and stages between. */
const yiJob = (tp: number, pp: number): JobText => ({
  model: { family: 'llama', layers: 60, embed: 7168, heads: 56, kvHeads: 8, ffn: 20480, vocab: 64000 },
  training: { seq: 4096, globalBatch: 256 },
  plan: {
    ...{ tp, pp, dp: 64 / tp / pp, zero: 1, sequenceParallel: tp > 1, precision: 'bf16' },
    ...{ microbatches: 4 * tp * pp, recompute: 'selective' },
  },
})

export interface YiAnswer {
  readonly capacity: number
  readonly plans: readonly Tried[]
}

export function yi(_: object): YiAnswer {
  const plans = (
    [
      [1, 4],
      [2, 4],
      [4, 2],
      [8, 2],
    ] as const
  ).map(([tp, pp]) => tried(`tp ${tp} pp ${pp} dp ${64 / tp / pp}`, yiJob(tp, pp), 'a100-80'))
  return { capacity: clusterOf('a100-80', 64).device.memory, plans }
}

/** Devices joined in nodes of eight, in a torus, and in a rack of 72. */
export const fabrics = ['h100', 'tpu-v5p', 'gb200'] as const
export type Fabric = (typeof fabrics)[number]

const wideJob = (tp: number): JobText => ({
  model: 'llama3-70b',
  training: { seq: 4096, globalBatch: 64 },
  plan: {
    ...{ tp, dp: 64 / tp, zero: 3, sequenceParallel: true, precision: 'bf16' },
    ...{ recompute: 'selective', microbatches: tp / 4 },
  },
})

export const torus = ({ fabric }: { readonly fabric: Fabric }): Tried[] =>
  [4, 8, 16, 32].map(tp => tried(`tp ${tp}`, wideJob(tp), fabric))

/** A plan as some software would run it, by price. */
export interface Era {
  readonly name: FrameworkName
  readonly step: number
  readonly parts: Parts
  readonly mfu: number
  readonly bytes: number
  readonly sources: readonly string[]
  readonly job: JobText
}

const eraJob = (model: string): JobText => ({
  model,
  training: { seq: 2048, globalBatch: 256 },
  plan: { tp: 8, pp: 2, dp: 4, microbatches: 32, precision: 'bf16', recompute: 'full' },
})

export function eras({ model }: { readonly model: string }): readonly Era[] {
  const text = eraJob(model)
  const job = jobOf(text)
  const cluster = clusterOf('a100-80', 64)
  return (Object.keys(frameworks) as FrameworkName[]).map(name => {
    const request = requestOfJob(job, cluster, name)
    const plan = priceOf(request, splitOf(job, '1f1b'))
    const { step, parts } = plan.estimate
    const { mfu } = ratesOfPlan(request, plan)
    return {
      name,
      step,
      parts: { offload: 0, stragglers: 0, ...parts },
      mfu,
      bytes: plan.bytes,
      sources: frameworks[name].sources,
      job: text,
    }
  })
}
