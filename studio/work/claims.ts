/** Claims of the course notes: what they say, and what comes out when they are run, one after the other. */
import { type Claim, claims, labOf, type Settled, settle, written } from '../claims/index.js'
import type { Context } from './modules.js'

/** What of a claim a page can show before it is run. */
export type ClaimCard = Pick<Claim, 'id' | 'notes' | 'page' | 'disputed' | 'text' | 'command'>

export interface ClaimResult extends Settled {
  /** Each number in its unit, as the sentence has it. */
  readonly shown: Readonly<Record<string, string>>
}

/** What is told of each claim as soon as it is known. */
export type ClaimNews =
  | { readonly id: string; readonly result: ClaimResult }
  | { readonly id: string; readonly failed: string }

/** Those that the notes contradict each other in come first. */
export const list = (_: object): ClaimCard[] =>
  [...claims]
    .sort((a, b) => Number(b.disputed) - Number(a.disputed))
    .map(({ id, notes, page, disputed, text, command }) => ({ id, notes, page, disputed, text, command }))

/** Jobs that several of them look at are compiled once. */
export function run({ ids }: { readonly ids: readonly string[] }, { progress }: Context): number {
  const lab = labOf()
  const wanted = new Set(ids)
  const found = claims.filter(({ id }) => wanted.has(id))
  for (const claim of found.sort((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id))) progress(newsOf(claim, lab))
  return found.length
}

function newsOf(claim: Claim, lab: ReturnType<typeof labOf>): ClaimNews {
  const { id, units } = claim
  try {
    const settled = settle(claim, lab)
    const shown = Object.entries(settled.values).map(([name, value]) => [name, written(value, units[name]!)])
    return { id, result: { ...settled, shown: Object.fromEntries(shown) } }
  } catch (error) {
    return { id, failed: error instanceof Error ? error.message : String(error) }
  }
}
