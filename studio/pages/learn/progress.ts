/** Which lessons a reader has opened, and where they guessed: kept in this browser, and nowhere else. */
import { signal } from '@preact/signals'
import { recall, remember } from '../../base/store.js'

export type Progress = 'opened' | 'guessed'

const isProgress = (word: unknown): word is Progress => word === 'opened' || word === 'guessed'

function kept(): Readonly<Record<string, Progress>> {
  try {
    const read: unknown = JSON.parse(recall('lessons') ?? '{}')
    return Object.fromEntries(
      Object.entries(read ?? {}).filter((entry): entry is [string, Progress] => isProgress(entry[1])),
    )
  } catch {
    return {}
  }
}

export const progress = signal(kept())

/** A guess is never unmade by opening the lesson again. */
export function advance(lesson: string, to: Progress): void {
  const now = progress.peek()
  if (now[lesson] === to || now[lesson] === 'guessed') return
  keep({ ...now, [lesson]: to })
}

export const forget = (): void => keep({})

function keep(next: Readonly<Record<string, Progress>>): void {
  progress.value = next
  remember('lessons', JSON.stringify(next))
}
