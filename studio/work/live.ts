/** What a rank of a simulated step holds from moment to moment, by kind, as so many columns of equal time. */
import { liveBytes, type Program, type Simulation } from 'lockstep'

export interface Live {
  readonly step: number
  /** Seconds at which each column ends. */
  readonly times: Float64Array<ArrayBuffer>
  /** Bytes by kind; each column has the most of its time. */
  readonly kinds: readonly (readonly [kind: string, bytes: Float64Array<ArrayBuffer>])[]
  readonly peak: { readonly at: number; readonly bytes: number }
}

const columns = 400

export function liveOver(program: Program, simulation: Simulation, pp: number): Live {
  const live = Object.entries(liveBytes(program.streams[pp]!))
  const when = timesOfSteps(program, simulation, pp)
  const { step } = simulation
  const binOf = (at: number) => Math.min(columns - 1, Math.floor((when[at]! / step) * columns))
  const kinds = live.map(([kind, bytes]) => [kind, binned(bytes, binOf)] as const)
  return {
    step,
    times: Float64Array.from({ length: columns }, (_, n) => ((n + 1) * step) / columns),
    kinds: kinds.filter(([, bytes]) => bytes.some(value => value > 0)),
    peak: peakOf(
      live.map(([, bytes]) => bytes),
      when,
    ),
  }
}

/** When each step of a stream begins: steps that take no time have that of the next. */
function timesOfSteps({ streams }: Program, simulation: Simulation, pp: number): Float64Array {
  const { steps } = streams[pp]!
  const rank = simulation.roles.find(role => role.pp === pp && simulation.watched(role.rank))?.rank ?? 0
  const { start, step, lane } = simulation.columnsOf(rank)
  const times = new Float64Array(steps.length).fill(Number.NaN)
  for (let i = 0; i < start.length; i++)
    if (lane[i] === 0) times[step[i]!] = Math.min(start[i]!, times[step[i]!] || Infinity)
  let next = simulation.step as number
  for (let at = steps.length - 1; at >= 0; at--) {
    if (Number.isNaN(times[at]!)) times[at] = next
    next = Math.min(next, times[at]!)
    times[at] = next
  }
  return times
}

/** The most in each column; where nothing happens it stays as it was. */
function binned(bytes: Float64Array, binOf: (at: number) => number): Float64Array<ArrayBuffer> {
  const most = new Float64Array(columns).fill(-1)
  let last = -1
  let before = bytes[0] ?? 0
  for (let at = 0; at < bytes.length; at++) {
    const bin = binOf(at)
    for (let empty = last + 1; empty < bin; empty++) most[empty] = Math.max(most[empty]!, before)
    most[bin] = Math.max(most[bin]!, bytes[at]!)
    before = bytes[at]!
    last = Math.max(last, bin)
  }
  for (let empty = last + 1; empty < columns; empty++) most[empty] = before
  return most
}

function peakOf(live: readonly Float64Array[], when: Float64Array): Live['peak'] {
  let peak = { at: 0, bytes: 0 }
  for (let at = 0; at < when.length; at++) {
    const bytes = live.reduce((sum, column) => sum + column[at]!, 0)
    if (bytes > peak.bytes) peak = { at: when[at]!, bytes }
  }
  return peak
}
