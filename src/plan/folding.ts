/**
 * Experts see the ranks of a stage through a grid of their own: etp, ep and what is left, in the same order as tp, cp and dp.
 * Both grids number the same ranks, so they are two ways to factor one number; where a common refinement exists, its factors
 * are the axes of the mesh, and each grid's axes are lists of them.
 */
import { contextOf, dataGroups, headSplit } from './rule.js'
import type { Plan } from './schema.js'

/** Room for rows of experts, over an even share, where a plan does not say. */
export const usualRows = 2

/** A grid of ranks, fastest first. */
export type Factors<Name extends string> = readonly { readonly name: Name; readonly size: number }[]

export interface CommonFactor<Dense extends string, Expert extends string> {
  readonly size: number
  readonly dense: Dense
  readonly expert: Expert
}

/** The coarsest factors of both grids, fastest first; undefined where one grid would cut a factor of the other in no whole number. */
export function commonFactors<D extends string, E extends string>(
  dense: Factors<D>,
  expert: Factors<E>,
): readonly CommonFactor<D, E>[] | undefined {
  const ends = [...new Set([...endsOf(dense), ...endsOf(expert)])].sort((a, b) => a - b)
  const found: CommonFactor<D, E>[] = []
  let from = 1
  for (const end of ends) {
    if (end % from !== 0) return undefined
    if (end > from) found.push({ size: end / from, dense: nameAt(dense, from), expert: nameAt(expert, from) })
    from = end
  }
  return found
}

/** Ranks below the end of each axis. */
function endsOf(grid: Factors<string>): number[] {
  let product = 1
  return grid.map(({ size }) => {
    product *= size
    return product
  })
}

/** The axis that varies from so many ranks on. */
const nameAt = <N extends string>(grid: Factors<N>, from: number): N =>
  grid[endsOf(grid).findIndex(end => end > from)].name

export type ExpertAxis = 'etp' | 'ep' | 'edp'

/** The grid of experts below pp; edp is what is left, a fraction where etp x ep does not divide the ranks. */
export function expertGrid({
  dp,
  cp,
  tp,
  ep,
  etp,
}: Pick<Plan, 'dp' | 'cp' | 'tp' | 'ep' | 'etp'>): Factors<ExpertAxis> {
  return [
    { name: 'etp', size: etp },
    { name: 'ep', size: ep },
    { name: 'edp', size: (dp * cp * tp) / (etp * ep) },
  ]
}

export type DenseFactor = 'tp' | 'tp of groups' | 'ulysses' | 'ulysses of groups' | 'cp' | 'dp' | 'replicas'

/** The grid of all other layers below pp, as the mesh has it: tp and cp in the factors in which they split heads, and what is left of cp. */
export function denseGrid(plan: Plan, kvHeads: number | undefined): Factors<DenseFactor> {
  const { outer, ulysses } = contextOf(plan)
  const groups = dataGroups(plan)
  // An attention that does not fit cp is told elsewhere.
  const heads = headSplit(plan.tp, outer * ulysses === plan.cp ? ulysses : plan.cp / outer, kvHeads)
  return [
    { name: 'tp of groups', size: heads.tp.group },
    { name: 'tp', size: heads.tp.kvHeads },
    { name: 'ulysses', size: heads.ulysses.kvHeads },
    { name: 'ulysses of groups', size: heads.ulysses.group },
    { name: 'cp', size: outer },
    { name: 'dp', size: groups.shard },
    { name: 'replicas', size: groups.groups },
  ]
}
