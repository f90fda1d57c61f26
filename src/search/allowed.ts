/** Plans with what a request allows beside the usual, each combination searched by itself, and all of them ranked together. */
import { finish, type Work } from '../base/index.js'
import type { ExtraName } from './extra-names.js'
import { searchedRecipes } from './extras.js'
import type { Request } from './request.js'
import { type Found, type Options, type Priced, searching } from './search.js'

/** All that a request allows, none of it first; with codes, once for each of their recipes. */
const combinationsOf = (allowed: readonly ExtraName[]): Pick<Request, 'extras' | 'recipe'>[] =>
  Array.from({ length: 2 ** allowed.length }, (_, bits) => allowed.filter((_, i) => (bits >> i) & 1)).flatMap(extras =>
    extras.includes('fp8') ? searchedRecipes.map(recipe => ({ extras, recipe })) : [{ extras }],
  )

/** The search of a request, and of all that it allows besides. */
export function* searchingAll(request: Request, options: Options): Work<Found> {
  const all: Found[] = []
  const combinations = combinationsOf(request.allowed ?? [])
  for (const extras of combinations) {
    const parts = searching({ ...request, ...extras }, options)
    let next = parts.next()
    for (; !next.done; next = parts.next()) yield (all.length + next.value) / combinations.length
    all.push(next.value)
  }
  return all.length === 1 ? all[0] : together(all, options)
}

export const searchAll = (request: Request, options: Options): Found => finish(searchingAll(request, options))

function together(all: readonly Found[], { keep }: Options): Found {
  const sum = (of: (counts: Found['counts']) => number) => all.reduce((total, { counts }) => total + of(counts), 0)
  const byTime = (a: Priced, b: Priced) => a.estimate.step - b.estimate.step
  return {
    best: all
      .flatMap(({ best }) => best)
      .sort(byTime)
      .slice(0, keep),
    front: lighterAndLighter(all.flatMap(({ front }) => front).sort(byTime)),
    counts: {
      considered: sum(({ considered }) => considered),
      pruned: { memory: sum(({ pruned }) => pruned.memory), time: sum(({ pruned }) => pruned.time) },
      priced: sum(({ priced }) => priced),
      unfit: sum(({ unfit }) => unfit),
    },
    capacity: all[0].capacity,
  }
}

/** Of plans in the order of their times those that are lighter than all before them. */
function lighterAndLighter(plans: readonly Priced[]): Priced[] {
  let least = Number.POSITIVE_INFINITY
  return plans.filter(({ bytes }) => {
    if (bytes >= least) return false
    least = bytes
    return true
  })
}
