/** What a race prints: the machine and how busy it is, then a table; or all of it as JSON. */
import { cpus, loadavg, release, type } from 'node:os'
import { table } from '../src/base/index.js'
import { type Entry, type Measure, type Result, speedup } from './race.js'

export interface Machine {
  readonly cpu: string
  readonly cores: number
  readonly system: string
  readonly node: string
  /** Processes that wanted to run, over the last minute. */
  readonly load: number
}

export const machine = (): Machine => ({
  cpu: cpus()[0]?.model ?? 'unknown',
  cores: cpus().length,
  system: `${type()} ${release()}`,
  node: process.version,
  load: loadavg()[0],
})

export const showMachine = ({ cpu, cores, system, node, load }: Machine): string =>
  `${cpu}, ${cores} cores, ${system}, node ${node}, load ${load.toFixed(1)}`

export const showSeconds = (seconds: number): string =>
  seconds >= 1
    ? `${seconds.toFixed(2)} s`
    : seconds >= 1e-3
      ? `${(seconds * 1e3).toFixed(2)} ms`
      : `${(seconds * 1e6).toFixed(1)} us`

const showEntry = (entry: Entry | undefined, by: Measure): string =>
  entry === undefined ? '-' : 'wrong' in entry ? `wrong: ${entry.wrong}` : showSeconds(entry[by])

export const showRatio = (ratio: number | undefined): string => (ratio === undefined ? '-' : ratio.toFixed(2))

export interface Versus {
  readonly name: string
  readonly peer: string
}

/** Best times, and for each pair how many times as fast the first is: by best and by median times. */
export function showResults(results: readonly Result[], versus: readonly Versus[]): string {
  const names = [...new Set(results.flatMap(({ entries }) => entries.map(({ name }) => name)))]
  const header = ['race', ...names, ...versus.map(({ name, peer }) => `${name} : ${peer} (median)`)]
  const rows = results.map(result => [
    result.title,
    ...names.map(name =>
      showEntry(
        result.entries.find(entry => entry.name === name),
        'best',
      ),
    ),
    ...versus.map(({ name, peer }) => {
      const [best, median] = (['best', 'median'] as const).map(by => showRatio(speedup(result, name, peer, by)))
      return `${best} (${median})`
    }),
  ])
  return table(header, rows)
}

export const ratiosOf = (results: readonly Result[], { name, peer }: Versus, by: Measure = 'best'): number[] =>
  results.map(result => speedup(result, name, peer, by)).filter(ratio => ratio !== undefined)
