/**
 * Ranks that are threads of one machine, more of them than it has cores. They take turns, and no core is idle while a
 * rank has work: the step takes as long as all the work shared by all cores, or as long as the chain of who waits for
 * whom, whichever is longer.
 */
import { worldOf } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { type Prices, scaledPrices } from './prices.js'
import { type SimulateOptions, type Simulation, simulate } from './simulate.js'

export function simulateInTurns(
  program: Program,
  prices: Prices,
  cores: number,
  options: SimulateOptions = {},
): Simulation {
  const free = simulate(program, prices, options)
  const { bubble, stragglers, pp } = free.parts
  const work = worldOf(program.mesh) * (free.step - bubble - stragglers - pp)
  const scale = work / cores / free.step
  return scale <= 1 ? free : simulate(program, scaledPrices(prices, scale), options)
}
