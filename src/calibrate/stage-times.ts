/** What stages took, as sums of what their instructions would cost: an emitted program cannot time them one by one. */
import { axisOfGroup } from '../base/index.js'
import { type Call, isCollective, type Phase, type Program, type Segment } from '../ir/index.js'
import type { Prices } from '../simulate/index.js'
import type { Timed } from './timed.js'
import type { StageTimes } from './times.js'

const passes: readonly Phase[] = ['F', 'I', 'W', 'B']
const updates: readonly Phase[] = ['update']

export const timedStages = (program: Program, given: Prices, stages: readonly StageTimes[]): Timed[] =>
  stages.flatMap(({ pp, ...seconds }) => {
    const calls = callsOf(program, pp)
    const computed = (phases: readonly Phase[]) => (prices: Prices) => totalOf(calls, phases, prices)
    return [
      { rate: 'memory' as const, seconds: seconds.updates, beside: false, price: computed(updates) },
      { rate: 'arithmetic' as const, seconds: seconds.passes, beside: false, price: computed(passes) },
      ...Object.entries(seconds.network).flatMap(([along, time]) => carriedAlong(along, time, calls, given)),
    ].filter(one => one.seconds > 0)
  })

interface Called {
  readonly call: Call
  readonly segment: Segment
}

const callsOf = ({ streams, segments }: Program, pp: number): Called[] =>
  (streams[pp]?.steps ?? []).flatMap(step =>
    step.kind === 'call' ? [{ call: step, segment: segments[step.segment] }] : [],
  )

const totalOf = (calls: readonly Called[], phases: readonly Phase[], prices: Prices): number =>
  calls
    .filter(({ segment }) => phases.includes(segment.phase))
    .flatMap(({ segment }) => segment.instrs.map(instr => (isCollective(instr) ? 0 : prices.compute(instr, segment))))
    .reduce((sum, seconds) => sum + seconds, 0)

/** Where collectives along an axis take several kinds of links, nobody knows whose time it was. */
function carriedAlong(along: string, seconds: number, calls: readonly Called[], given: Prices): Timed[] {
  const carried = calls.flatMap(({ segment }) =>
    segment.instrs.flatMap(instr =>
      isCollective(instr) && axisOfGroup(instr.group.axes) === along ? [{ instr, segment }] : [],
    ),
  )
  const links = new Set(carried.map(({ instr, segment }) => given.collective(instr, segment).link))
  const [link = -1] = links
  if (links.size !== 1 || link < 0) return []
  const price = (prices: Prices) =>
    carried.reduce((sum, { instr, segment }) => sum + prices.collective(instr, segment).seconds, 0)
  return [{ rate: { link: given.links[link] }, seconds, beside: false, price }]
}
