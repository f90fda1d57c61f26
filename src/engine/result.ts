/** What a step leaves in the frames that the program names as its results. */
import { type Rank, rankAt, type Scalars, scalarEntries } from '../base/index.js'
import { type Program, type ResultName, resultPlaces } from '../ir/index.js'
import type { StepResult } from './runner.js'

type Read = (rank: Rank, frame: number) => number

/** `read` gives the first number in a frame of a rank; `before` the scalars before the step. NaN for what the program does not have. */
export function stepResultOf(
  program: Pick<Program, 'mesh' | 'results' | 'scalars'>,
  read: Read,
  before: Scalars<number>,
): StepResult {
  const { mesh, results } = program
  const sum = (name: ResultName) => {
    const [place] = resultPlaces(results[name])
    return place ? read(rankAt(mesh, { pp: place[0] }), place[1]) : Number.NaN
  }
  const [lossSum, count] = [sum('loss'), sum('count')]
  const terms = resultPlaces(results.terms).length > 0 ? sum('terms') : 0
  const { taken = Number.NaN, scale } = scalarsIn(program, read)
  const sums = { loss: lossSum / count + terms, lossSum, count, terms, normSquared: sum('normSquared') }
  const scales = scale !== undefined && before.scale !== undefined && { scale: { before: before.scale, after: scale } }
  return { ...sums, taken, skipped: taken === before.taken, ...scales }
}

/** What the scalars of a program are now; all ranks have the same. */
export const scalarsIn = ({ mesh, scalars }: Pick<Program, 'mesh' | 'scalars'>, read: Read): Scalars<number> =>
  Object.fromEntries(
    scalarEntries(scalars).map(([name, { frames }]) => {
      const [[pp, frame]] = resultPlaces(frames)
      return [name, read(rankAt(mesh, { pp }), frame)]
    }),
  )

/** What they are before the first step. */
export const scalarStartsOf = ({ scalars }: Pick<Program, 'scalars'>): Scalars<number> =>
  Object.fromEntries(scalarEntries(scalars).map(([name, { start }]) => [name, start]))

/** Where values of them go: a frame of every stream. */
export const placedScalars = ({ scalars }: Pick<Program, 'scalars'>, values: Scalars<number>) =>
  scalarEntries(values).flatMap(([name, value]) =>
    resultPlaces(scalars?.[name]?.frames).map(([pp, frame]) => ({ pp, frame, value })),
  )

/** What a program takes over from a checkpoint: a scale that never moves is its own. */
export function resumedScalars({ scalars }: Pick<Program, 'scalars'>, saved: Scalars<number>): Scalars<number> {
  const { scale: _, ...others } = saved
  return scalars?.growth ? saved : others
}
