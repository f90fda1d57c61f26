/** A run as numbers that a monitoring system asks for again and again: what each is called, what it means, what it is now. */
import type { HealthEvent, StepLine } from '../health/index.js'

interface Named {
  readonly type: 'gauge' | 'counter'
  readonly help: string
  /** Names of its labels, where it has several values. */
  readonly labels?: readonly string[]
}

/** Every name there is; a dashboard can ask for no other. Units are in the names, as Prometheus wants them. */
export const metricTable = {
  lockstep_info: { type: 'gauge', help: 'The run: always 1', labels: ['run', 'name', 'plan', 'kernels'] },
  lockstep_ranks: { type: 'gauge', help: 'Number of ranks' },
  lockstep_step: { type: 'gauge', help: 'The last step, counted from 1' },
  lockstep_planned_steps: { type: 'gauge', help: 'Steps of the whole run' },
  lockstep_steps_total: { type: 'counter', help: 'Steps since the process started, including repeated ones' },
  lockstep_skipped_steps_total: { type: 'counter', help: 'Skipped steps since the process started' },
  lockstep_tokens_total: { type: 'counter', help: 'Tokens since the process started' },
  lockstep_checkpoints_total: { type: 'counter', help: 'Checkpoints since the process started' },
  lockstep_loss: { type: 'gauge', help: 'Loss of the last applied step' },
  lockstep_eval_loss: { type: 'gauge', help: 'Last validation loss' },
  lockstep_learning_rate: { type: 'gauge', help: 'Learning rate of the last step' },
  lockstep_gradient_norm: { type: 'gauge', help: 'Gradient norm of the last step' },
  lockstep_loss_scale: { type: 'gauge', help: 'Loss scale of the last step' },
  lockstep_step_seconds: { type: 'gauge', help: 'Time of the last step' },
  lockstep_tokens_per_second: { type: 'gauge', help: 'Rate of the last step' },
  lockstep_flops_per_second: { type: 'gauge', help: 'Rate of the last step' },
  lockstep_time_ratio: { type: 'gauge', help: 'Fractions of rank time in the last step', labels: ['part'] },
  lockstep_memory_bytes: { type: 'gauge', help: 'Peak memory of a rank by category', labels: ['rank', 'kind'] },
  lockstep_health_events_total: { type: 'counter', help: 'Health events by kind', labels: ['event', 'severity'] },
  lockstep_last_step_timestamp_seconds: { type: 'gauge', help: 'When the last step ended' },
} as const satisfies Readonly<Record<string, Named>>

export type MetricName = keyof typeof metricTable

export interface Sample {
  readonly labels?: Readonly<Record<string, string>>
  readonly value: number
}
export type Samples = ReadonlyMap<MetricName, readonly Sample[]>

export interface MetricsOf {
  readonly info: Readonly<Record<'run' | 'name' | 'plan' | 'kernels', string>>
  readonly ranks: number
  readonly steps: number
  /** Peaks by rank and kind; asked for with every reading. */
  readonly memory: () => readonly { readonly rank: number; readonly kind: string; readonly bytes: number }[]
  /** Seconds since 1970. */
  readonly now: () => number
}

export interface Metrics {
  step(line: StepLine): void
  event(event: HealthEvent): void
  /** As they are now. What is not known has no value. */
  read(): Samples
}

export function metricsOf(of: MetricsOf): Metrics {
  const counts = { steps: 0, skipped: 0, tokens: 0, checkpoints: 0 }
  const events = new Map<string, { readonly labels: Readonly<Record<string, string>>; value: number }>()
  let [last, loss, held, endedAt]: [StepLine | undefined, ...(number | undefined)[]] = [undefined]
  return {
    step(line) {
      last = line
      if (line.skipped === undefined) loss = line.loss
      held = line.evalLoss ?? held
      endedAt = of.now()
      counts.steps++
      counts.skipped += line.skipped === undefined ? 0 : 1
      counts.tokens += Math.round((line.tokensPerSecond ?? 0) * line.seconds)
      counts.checkpoints += line.checkpoint === undefined ? 0 : 1
    },
    event({ event, severity }) {
      const key = `${event} ${severity}`
      const known = events.get(key) ?? { labels: { event, severity }, value: 0 }
      events.set(key, { ...known, value: known.value + 1 })
    },
    read: () =>
      samplesOf({
        ...{ lockstep_ranks: of.ranks, lockstep_planned_steps: of.steps, lockstep_step: last?.step },
        ...{ lockstep_steps_total: counts.steps, lockstep_skipped_steps_total: counts.skipped },
        ...{ lockstep_tokens_total: counts.tokens, lockstep_checkpoints_total: counts.checkpoints },
        ...{ lockstep_loss: loss, lockstep_eval_loss: held, lockstep_last_step_timestamp_seconds: endedAt },
        ...ofStep(last),
        lockstep_info: [{ labels: of.info, value: 1 }],
        lockstep_memory_bytes: of
          .memory()
          .map(({ rank, kind, bytes }) => ({ labels: { rank: String(rank), kind }, value: bytes })),
        lockstep_health_events_total: [...events.values()],
      }),
  }
}

type Values = Readonly<Partial<Record<MetricName, number | undefined | readonly Sample[]>>>

const ofStep = (line: StepLine | undefined): Values => ({
  lockstep_learning_rate: line?.lr,
  lockstep_gradient_norm: line?.gradientNorm,
  lockstep_loss_scale: line?.scale,
  lockstep_step_seconds: line?.seconds,
  lockstep_tokens_per_second: line?.tokensPerSecond,
  lockstep_flops_per_second: line?.flopsPerSecond,
  lockstep_time_ratio: Object.entries(line?.shares ?? {}).map(([part, value]) => ({ labels: { part }, value })),
})

function samplesOf(values: Values): Samples {
  const names = Object.keys(metricTable) as MetricName[] // exactly its keys
  return new Map(
    names.flatMap(name => {
      const value = values[name]
      const samples = typeof value === 'number' ? [{ value }] : (value ?? [])
      return samples.length > 0 ? [[name, samples] as const] : []
    }),
  )
}
