/** Claims as this page knows them: listed once, and what came out of those that were run, wherever they were. */
import { signal } from '@preact/signals'
import { ask } from '../../work/ask.js'
import type { ClaimCard, ClaimNews, ClaimResult } from '../../work/claims.js'

export type ClaimState =
  | { readonly state: 'running' }
  | { readonly state: 'settled'; readonly result: ClaimResult }
  | { readonly state: 'failed'; readonly message: string }

export const cards = signal<readonly ClaimCard[] | undefined>(undefined)
export const states = signal<Readonly<Record<string, ClaimState>>>({})

let listing: Promise<void> | undefined

export function listClaims(): Promise<void> {
  listing ??= ask('fast', ['claims', 'list'], {}).then(list => {
    cards.value = list
  })
  return listing
}

function put(id: string, state: ClaimState | undefined): void {
  const { [id]: _, ...others } = states.peek()
  states.value = state ? { ...others, [id]: state } : others
}

/** Runs them in a worker of their own, one after the other; what it returns gives up those that are left. */
export function runClaims(ids: readonly string[]): () => void {
  const left = new Set(ids)
  for (const id of ids) put(id, { state: 'running' })
  const giving = new AbortController()
  const progress = (value: unknown) => {
    const news = value as ClaimNews // what `run` of work/claims tells
    left.delete(news.id)
    put(
      news.id,
      'result' in news ? { state: 'settled', result: news.result } : { state: 'failed', message: news.failed },
    )
  }
  const asked = ask('long', ['claims', 'run'], { ids }, { progress, signal: giving.signal })
  asked
    .catch((error: unknown) => {
      if (giving.signal.aborted) return
      for (const id of left) put(id, { state: 'failed', message: String(error) })
      left.clear()
    })
    .finally(() => {
      for (const id of left) put(id, undefined)
    })
  return () => giving.abort()
}

/** Those of them that were not run yet. */
export const unsettled = (ids: readonly string[]): string[] => ids.filter(id => states.peek()[id] === undefined)
