/** What a run tells others while it goes on. */
import type { HealthEvent, StepLine } from '../../health/index.js'
import { openTensorBoard } from '../../monitor/index.js'
import type { Job } from '../../plan/index.js'
import type { Session } from '../../train/index.js'
import { paragraph } from '../commands/check.js'
import type { Io } from '../io.js'

export interface MonitorOptions {
  readonly tensorboard?: string
}

export interface Monitors {
  /** For people who ask where to look. */
  readonly notes: readonly string[]
  step(line: StepLine): void
  event(event: HealthEvent): void
}

/** Those that were asked for, told together. */
export function openMonitors(session: Session, { tensorboard }: MonitorOptions, io: Io): Monitors {
  const { job, behind } = session
  const about = { about: aboutJob(job), first: behind + 1 }
  const now = () => Date.now() / 1000
  const board = tensorboard === undefined ? undefined : openTensorBoard(tensorboard, { files: io, now, ...about })
  return {
    notes: board ? [`TensorBoard: tensorboard --logdir ${tensorboard}`] : [],
    step: line => board?.step(line),
    event: event => board?.event(event),
  }
}

/** Markdown. */
const aboutJob = (job: Job): string => [paragraph(job), '```json', JSON.stringify(job, null, 2), '```'].join('\n')
