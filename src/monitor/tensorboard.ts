/** A run as TensorBoard shows it: curves of its numbers, its job and its health events as text. */
import { type Files, within, writing } from '../base/index.js'
import type { HealthEvent, StepLine } from '../health/index.js'
import { type EventValue, restartRecord, valuesRecord, versionRecord } from './event-file.js'

export interface TensorBoard {
  readonly path: string
  step(line: StepLine): void
  event(event: HealthEvent): void
}

export interface TensorBoardOptions {
  readonly files: Pick<Files, 'append' | 'makeFolder' | 'exists' | 'process'>
  /** Markdown, shown before the first step. */
  readonly about: string
  /** The first step it will be told of. */
  readonly first: number
  /** Seconds since 1970. */
  readonly now: () => number
}

/** One folder is one run. A run that goes on in the folder of an earlier one gets a file of its own. */
export function openTensorBoard(folder: string, { files, about, first, now }: TensorBoardOptions): TensorBoard {
  const path = freeFile(folder, Math.floor(now()), files)
  const append = (record: Uint8Array) => writing(path, () => files.append(path, record))
  writing(folder, () => files.makeFolder(folder))
  append(versionRecord(now()))
  let next = first
  const restart = (step: number) => append(restartRecord({ time: now(), step }))
  if (first > 1) restart(first)
  append(valuesRecord({ time: now(), step: first - 1 }, [{ tag: 'job', text: about }]))
  return {
    path,
    step(line) {
      if (line.step < next) restart(line.step)
      next = line.step + 1
      append(valuesRecord({ time: now(), step: line.step }, scalarsOf(line)))
    },
    event(event) {
      const value = { tag: `events/${event.event}`, text: eventText(event) }
      append(valuesRecord({ time: now(), step: Math.max(event.step, next - 1) }, [value]))
    },
  }
}

/** TensorBoard reads the files of a folder in the order of their names. */
function freeFile(folder: string, time: number, files: TensorBoardOptions['files']): string {
  const { host, pid } = files.process
  for (let i = 0; ; i++) {
    const path = within(folder, `events.out.tfevents.${String(time).padStart(10, '0')}.${host}.${pid}.${i}`)
    if (!files.exists(path)) return path
  }
}

/** Curves by the tag that they are found under; emitted programs write the same (emit/runtime/tensorboard.py). */
export function scalarsOf(line: StepLine): EventValue[] {
  const { shares } = line
  const values: Readonly<Record<string, number | undefined>> = {
    // The loss of a step that was skipped says nothing of the run.
    'train/loss': line.skipped === undefined ? line.loss : undefined,
    'val/loss': line.evalLoss,
    'train/lr': line.lr,
    'train/grad_norm': line.gradientNorm,
    'train/loss_scale': line.scale,
    'optimizer/applied_steps': line.taken,
    'perf/step_time': line.seconds,
    'perf/tokens_per_sec': line.tokensPerSecond,
    'perf/flops_per_sec': line.flopsPerSecond,
    'train/global_batch': line.globalBatch,
    'memory/peak_gib': line.peakBytes === undefined ? undefined : line.peakBytes / 2 ** 30,
    'time/compute': shares?.compute,
    'time/communication': shares?.communication,
    'time/waiting': shares?.waiting,
    'time/bubble': shares?.bubble,
    'time/overlap': shares?.overlap,
  }
  return Object.entries(values).flatMap(([tag, value]) => (value === undefined ? [] : [{ tag, value }]))
}

/** Markdown. */
function eventText({ severity, rank, where, message, numbers, advice, command }: HealthEvent): string {
  const place = [rank === undefined ? [] : [`rank ${rank}`], where ?? []].flat().join(', ')
  return [
    `**${severity}**${place === '' ? '' : ` (${place})`}: ${message}`,
    ...(advice === undefined ? [] : [advice]),
    ...(command === undefined ? [] : [`\`${command}\``]),
    ...(Object.keys(numbers).length === 0
      ? []
      : [
          Object.entries(numbers)
            .map(([name, value]) => `${name} ${value}`)
            .join(', '),
        ]),
  ].join('\n\n')
}
