/** The reference machine as an engine: slow and exact, all ranks in one thread. */
import { seconds, worldOf } from '../../base/index.js'
import { type Program, requireSound } from '../../ir/index.js'
import { type Span, spanOf } from '../../trace/index.js'
import type { Runner, StartOptions } from '../runner.js'
import { boot } from './machine.js'
import type { Observation } from './world.js'

export async function startReference(program: Program, { seed, measure }: StartOptions): Promise<Runner> {
  requireSound(program)
  const ranks = worldOf(program.mesh)
  const started = performance.now()
  const now = () => (performance.now() - started) / 1000
  let spans: Span[] = []
  let last = 0
  /** Told when an instruction is done: it began when the one before, of whichever rank, was. */
  const observe = ({ rank, step, call, instr }: Observation) => {
    const end = now()
    const index = program.segments[call.segment].instrs.indexOf(instr)
    spans.push(spanOf(program, { rank, step, instr: index, start: seconds(last), end: seconds(end) }))
    last = end
  }
  // All digits where nothing is rounded; else those the program stores.
  const narrow = program.params.find(({ dtype }) => dtype !== 'f32')?.dtype
  const machine = boot(program, { seed, precision: narrow ? 'f32' : 'f64', ...(measure ? { observe } : {}) })
  return {
    description: `reference interpreter in ${narrow ?? 'f64'}, ${ranks > 1 ? `${ranks} ranks taking turns` : 'one rank'} in one thread`,
    concurrent: false,
    step(data) {
      spans = []
      last = now()
      return machine.step(data)
    },
    parameter: machine.parameter,
    setParameter: machine.setParameter,
    held: ({ rank, frame }) => machine.held(rank, frame),
    hold: machine.hold,
    peaks: machine.peaks,
    get spans() {
      return spans
    },
    stop() {},
  }
}
