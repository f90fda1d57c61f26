/** What a step leaves in the frames that the program names as its results. */
import { type Rank, rankAt } from '../base/index.js'
import { type Program, type ResultName, resultPlaces } from '../ir/index.js'
import type { StepResult } from './runner.js'

/** `read` gives the first number in a frame of a rank. NaN for what the program does not have. */
export function stepResultOf(
  { mesh, results }: Pick<Program, 'mesh' | 'results'>,
  read: (rank: Rank, frame: number) => number,
): StepResult {
  const sum = (name: ResultName) => {
    const [place] = resultPlaces(results[name])
    return place ? read(rankAt(mesh, { pp: place[0] }), place[1]) : Number.NaN
  }
  const [lossSum, count] = [sum('loss'), sum('count')]
  const terms = resultPlaces(results.terms).length > 0 ? sum('terms') : 0
  return { loss: lossSum / count + terms, lossSum, count, terms, normSquared: sum('normSquared') }
}
