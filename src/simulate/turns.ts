/**
 * Ranks that are threads of one machine, more of them than it has cores. They take turns, and no core is idle while a
 * rank has work: the step takes as long as all the work shared by all cores, or as long as the chain of who waits for
 * whom, whichever is longer.
 */
import { asPart, finish, type Work, worldOf } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { type Prices, scaledPrices } from './prices.js'
import { type SimulateOptions, type Simulation, simulating } from './simulate.js'

export const simulateInTurns = (
  program: Program,
  prices: Prices,
  cores: number,
  options: SimulateOptions = {},
): Simulation => finish(simulatingInTurns(program, prices, cores, options))

export function* simulatingInTurns(
  program: Program,
  prices: Prices,
  cores: number,
  options: SimulateOptions = {},
): Work<Simulation> {
  const free = yield* asPart(0, 0.5, simulating(program, prices, options))
  const { bubble, stragglers, pp } = free.parts
  const work = worldOf(program.mesh) * (free.step - bubble - stragglers - pp)
  const scale = work / cores / free.step
  return scale <= 1 ? free : yield* asPart(0.5, 1, simulating(program, scaledPrices(prices, scale), options))
}
