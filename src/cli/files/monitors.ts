/** What a run tells others while it goes on: event files for TensorBoard, metrics for Prometheus. */
import { isNoRoom, noRoom } from '../../base/index.js'
import type { HealthEvent, StepLine } from '../../health/index.js'
import { kinds } from '../../ir/index.js'
import { metricsOf, openTensorBoard, prometheusText, type TensorBoard } from '../../monitor/index.js'
import { type Job, type Plan, worldOfPlan } from '../../plan/index.js'
import type { Session } from '../../train/index.js'
import { paragraph } from '../commands/check.js'
import type { Io } from '../io.js'
import { serveMetrics } from './metrics-server.js'
import { closeRecords, openRecords } from './run-report.js'

export interface MonitorOptions {
  readonly tensorboard?: string
  /** [host:]port */
  readonly prometheus?: string
}

export interface Monitors {
  /** Where to look, for people. */
  readonly notes: readonly string[]
  step(line: StepLine): void
  event(event: HealthEvent): void
  close(): void
}

type Asked = MonitorOptions & { readonly run: string; readonly folder: string }

/** Those that were asked for, told together. */
export async function openMonitors(session: Session, asked: Asked, io: Io): Promise<Monitors> {
  const board = boardOf(session, asked, io)
  const served = await metricsServed(session, asked)
  const records = openRecords(asked.folder, session, io)
  const all = [...(board ? [board] : []), ...(served ? [served] : [])]
  return {
    notes: [
      ...(board ? [`TensorBoard: tensorboard --logdir ${asked.tensorboard}`] : []),
      ...(served ? [`Prometheus: ${served.address}`] : []),
    ],
    step: line => {
      records.step()
      for (const monitor of all) monitor.step({ peakBytes: arenaOf(session), ...line })
    },
    event: event => {
      for (const monitor of all) monitor.event(event)
    },
    close: () => {
      served?.close()
      closeRecords(records, io)
    },
  }
}

/** Bytes of the fullest rank, which the engine has from the start. */
const arenaOf = ({ program }: Session): number => Math.max(...program.streams.map(({ arena }) => arena))

const now = () => Date.now() / 1000

function boardOf({ job, behind }: Session, { tensorboard }: MonitorOptions, io: Io) {
  const about = { about: aboutJob(job), first: behind + 1 }
  return tensorboard === undefined
    ? undefined
    : untilFull(openTensorBoard(tensorboard, { files: io, now, ...about }), tensorboard, io)
}

/** A full disk ends no run. What follows a record that was cut cannot be read, so the file ends there. */
function untilFull(board: TensorBoard, folder: string, io: Io): Pick<TensorBoard, 'step' | 'event'> {
  let isFull = false
  const surely = (work: () => void) => {
    if (isFull) return
    try {
      work()
    } catch (e) {
      if (!isNoRoom(e)) throw e
      isFull = true
      io.err(`warning: TensorBoard: cannot write to ${folder}: ${noRoom}; the run continues without it\n`)
    }
  }
  return { step: line => surely(() => board.step(line)), event: event => surely(() => board.event(event)) }
}

/** Markdown. */
const aboutJob = (job: Job): string => [paragraph(job), '```json', JSON.stringify(job, null, 2), '```'].join('\n')

async function metricsServed({ job, trainer, kernels }: Session, { prometheus, run }: Asked) {
  if (prometheus === undefined) return undefined
  const metrics = metricsOf({
    info: { run, name: job.name ?? '', plan: planTitle(job.plan), kernels },
    ...{ ranks: worldOfPlan(job.plan), steps: job.training.steps, now },
    memory: () =>
      trainer.peaks.flatMap((peak, rank) =>
        kinds.flatMap(kind => (peak[kind] > 0 ? [{ rank, kind, bytes: peak[kind] }] : [])),
      ),
  })
  return { ...metrics, ...(await serveMetrics(prometheus, () => prometheusText(metrics.read()))) }
}

/** `dp 2 tp 2 pp 2 zero 1` */
const planTitle = (plan: Plan): string =>
  (['dp', 'cp', 'tp', 'ep', 'pp', 'zero'] as const)
    .flatMap(name => (plan[name] > (name === 'zero' ? 0 : 1) ? [`${name} ${plan[name]}`] : []))
    .join(' ')
