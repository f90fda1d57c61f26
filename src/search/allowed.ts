/** Plans with what a request allows beside the usual, each combination searched by itself, and all of them ranked together. */
import { finish, type Work } from '../base/index.js'
import { awaysOf } from './aways.js'
import { searchedRecipes } from './extras.js'
import type { Request } from './request.js'
import { type Counts, type Found, type Options, searching } from './search.js'

type Combination = Pick<Request, 'extras' | 'away' | 'recipe'>

/** All that a request allows, none of it first; of what may live elsewhere every set, and with codes each of their recipes. */
function combinationsOf(request: Request): Combination[] {
  const allowed = request.allowed ?? []
  const sets = Array.from({ length: 2 ** allowed.length }, (_, bits) => allowed.filter((_, i) => (bits >> i) & 1))
  const aways = allowed.includes('offload') ? awaysOf(request) : []
  return sets.flatMap(extras => {
    const placed: Combination[] = extras.includes('offload') ? aways.map(away => ({ extras, away })) : [{ extras }]
    return extras.includes('fp8')
      ? placed.flatMap(one => searchedRecipes.map((recipe): Combination => ({ ...one, recipe })))
      : placed
  })
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
