/** A thread of Node that writes checkpoints with the files of this machine, while the run goes on. */
import { error, type Problem, ProblemsError, sayFailure } from '../base/index.js'
import { platform, type ThreadHandle } from '../platform/index.js'
import type { Order, Writer } from '../train/index.js'

/** What became of an order. */
export interface FromWriter {
  readonly problems: readonly Problem[]
}

/**
 * Starts the thread that writes checkpoints during training. It runs from the first order on and keeps the process
 * alive while it has one.
 */
export function startWriter(): Writer {
  let thread: ThreadHandle<Order> | undefined
  let ended: ((problems: readonly Problem[]) => void) | undefined
  let writing: Promise<unknown> = Promise.resolve()
  const end = (problems: readonly Problem[]): void => {
    thread?.keepAlive(false)
    ended?.(problems)
    ended = undefined
  }
  const start = (): ThreadHandle<Order> =>
    platform.spawn<Order, FromWriter>(new URL('./writer-thread.js', import.meta.url), {
      message: ({ problems }) => end(problems),
      death(reason) {
        thread = undefined
        end([error('run/write', '', `the checkpoint writer thread exited: ${sayFailure(reason)}`)])
      },
    })
  return {
    async isFree(patience) {
      if (ended) await (patience === Number.POSITIVE_INFINITY ? writing : Promise.race([writing, later(patience)]))
      return ended === undefined
    },
    async write(order) {
      thread ??= start()
      const outcome = new Promise<readonly Problem[]>(resolve => {
        ended = resolve
      })
      writing = outcome
      thread.keepAlive(true)
      thread.post(order)
      const problems = await outcome
      if (problems.length > 0) throw new ProblemsError(problems)
    },
    stop: async () => thread?.end(),
  }
}

const later = (ms: number): Promise<void> => new Promise(resolve => void setTimeout(resolve, ms).unref())
