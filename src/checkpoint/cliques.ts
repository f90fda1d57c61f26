/** Who keeps whose copy: ranks of different failure domains keep each other's. */
import type { Rank } from '../base/index.js'

/** Groups of `factor` ranks that lie `jump` apart, where these fill the world. */
export function cliquesOf(world: number, jump: number, factor = 2): Rank[][] {
  const block = jump * factor
  if (world % block !== 0) throw new Error(`cliques of ${factor} ranks, ${jump} apart, do not fill ${world} ranks`)
  return Array.from({ length: world / factor }, (_, i) => {
    const first = Math.floor(i / jump) * block + (i % jump)
    return Array.from({ length: factor }, (_, k) => first + k * jump)
  })
}

/** Ranks that fail together, where `jump` of them share a node. */
export const domainOf = (rank: Rank, jump: number): number => Math.floor(rank / jump)

/** The other one of its pair; where pairs do not fill the world, the one `jump` after it, in a ring. Itself where it is alone. */
export const partnerOf = (rank: Rank, world: number, jump: number): Rank =>
  world % (2 * jump) === 0 ? rank + (domainOf(rank, jump) % 2 === 0 ? jump : -jump) : (rank + jump) % world

/** Half of the world apart, if nobody says which ranks share a node: then either half may go. */
export const usualJump = (world: number): number => Math.max(1, Math.floor(world / 2))
