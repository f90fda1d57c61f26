/** Plans with what a request allows beside the usual, each combination searched by itself, and all of them ranked together. */
import { finish, type Work } from '../base/index.js'
import { awaysOf } from './aways.js'
import type { Request } from './request.js'
import { type Counts, type Found, type Options, searching } from './search.js'

/** All that a request allows, none of it first; and of what may live elsewhere every set. */
function combinationsOf(request: Request): Pick<Request, 'extras' | 'away'>[] {
  const allowed = request.allowed ?? []
  const sets = Array.from({ length: 2 ** allowed.length }, (_, bits) => allowed.filter((_, i) => (bits >> i) & 1))
  const away = allowed.includes('offload') ? awaysOf(request) : []
  return sets.flatMap((extras): Pick<Request, 'extras' | 'away'>[] =>
    extras.includes('offload') ? away.map(one => ({ extras, away: one })) : [{ extras }],
  )
}

/** The search of a request, and of all that it allows besides: each knows what those before it have found. */
export function* searchingAll(request: Request, options: Options): Work<Found> {
  const all: Found[] = []
  const combinations = combinationsOf(request)
  for (const combination of combinations) {
    const last = all.at(-1)
    const known = last ? [...new Set([...last.best, ...last.front])] : []
    const parts = searching({ ...request, ...combination }, { ...options, known })
    let next = parts.next()
    for (; !next.done; next = parts.next()) yield (all.length + next.value) / combinations.length
    all.push(next.value)
  }
  return { ...all[all.length - 1], counts: sumOf(all.map(({ counts }) => counts)), capacity: all[0].capacity }
}

export const searchAll = (request: Request, options: Options): Found => finish(searchingAll(request, options))

function sumOf(all: readonly Counts[]): Counts {
  const sum = (of: (counts: Counts) => number) => all.reduce((total, counts) => total + of(counts), 0)
  return {
    considered: sum(({ considered }) => considered),
    pruned: { memory: sum(({ pruned }) => pruned.memory), time: sum(({ pruned }) => pruned.time) },
    priced: sum(({ priced }) => priced),
    unfit: sum(({ unfit }) => unfit),
  }
}
