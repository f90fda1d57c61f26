/** Which lessons a reader has opened, where they guessed, and which exercises they solved: kept in this browser, and nowhere else. */
import { signal } from '@preact/signals'
import { recall, remember } from '../../base/store.js'

export type Progress = (typeof reached)[number]

/** From the least to the most. */
const reached = ['opened', 'guessed', 'solved'] as const

const isProgress = (word: unknown): word is Progress => reached.some(each => each === word)

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

/** A guess or a solution is never unmade by opening the lesson again. */
export function advance(lesson: string, to: Progress): void {
  const now = progress.peek()
  const before = now[lesson]
  if (before && reached.indexOf(before) >= reached.indexOf(to)) return
  keep({ ...now, [lesson]: to })
}

export const forget = (): void => keep({})

function keep(next: Readonly<Record<string, Progress>>): void {
  progress.value = next
  remember('lessons', JSON.stringify(next))
}
