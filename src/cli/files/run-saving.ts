/** The checkpoints of a run that is followed: when they are due, and what is said of them. */
import { ProblemsError } from '../../base/index.js'
import type { HealthEvent } from '../../health/index.js'
import { type CheckpointFolder, isDue, type Saved, type StepRecord, savedEvents } from '../../train/index.js'
import type { Io } from '../io.js'
import { Progress } from '../text/progress.js'

export interface RunSaving {
  /**
   * Saves the step where it is due or where the run stops after it. Adds the checkpoint that was completed since the step before,
   * and what became of others. That of the last step is waited for.
   */
  after(record: StepRecord, stops: boolean): Promise<StepRecord>
  /** Removes what was saved from a step on, which the run takes again. */
  takeBack(step: number): Promise<void>
  /** Saves a step after which the run fails, where that can be done; returns where it is. */
  rescue(step: number): Promise<string | undefined>
  /** Waits for the last one. Throws where that is not there. */
  finish(): Promise<readonly HealthEvent[]>
}

/** `every`: so many steps; 0: after the last one alone. */
export function runSaving(
  folder: CheckpointFolder,
  { every, steps }: { every: number; steps: number },
  io: Io,
): RunSaving {
  const { say, erase } = new Progress(io)
  let [last, failed] = [0, undefined as Saved | undefined]
  const told = (saved: readonly Saved[]): HealthEvent[] => {
    failed = saved.find(({ step, problems, dropped }) => step === last && (problems.length > 0 || dropped)) ?? failed
    return saved.flatMap(savedEvents)
  }
  const start = async (step: number, isLast: boolean): Promise<string> => {
    say(`saving step ${step}`)
    last = step
    failed = undefined
    const path = await folder.start(isLast)
    erase()
    return path
  }
  return {
    async after(record, stops) {
      const before = folder.ended()
      const isLast = stops || record.step === steps
      const due = last < record.step && (stops || isDue(record.step, steps, every))
      if (due) await start(record.step, isLast)
      const ended = [...before, ...(due && isLast ? await folder.finish() : folder.ended())]
      const written = ended.findLast(({ problems, dropped }) => problems.length === 0 && !dropped)
      const events = [...(record.events ?? []), ...told(ended)]
      return { ...record, ...(written && { checkpoint: written.path }), ...(events.length > 0 && { events }) }
    },
    async takeBack(step) {
      await folder.takeBack(step)
      last = Math.min(last, step - 1)
    },
    async rescue(step) {
      if (last === step) return undefined
      try {
        const path = await start(step, true)
        told(await folder.finish())
        return failed ? undefined : path
      } catch {
        return undefined // why the run fails has still to be said
      }
    },
    async finish() {
      const events = told(await folder.finish())
      if (failed) throw new ProblemsError(failed.problems)
      return events
    },
  }
}
