/** The native engine as a runner for training: real ranks, compiled kernels. */
import { seconds, worldOf } from '../../../base/index.js'
import type { Program } from '../../../ir/index.js'
import { type Span, spanOf } from '../../../trace/index.js'
import type { Runner, StartOptions } from '../../runner.js'
import type { Kernels } from '../kernels/kernels.js'
import { startEngine } from './engine.js'

export const startOn =
  (kernels: Kernels['kind']) =>
  async (program: Program, { seed, measure, flightRecord }: StartOptions): Promise<Runner> => {
    const engine = await startEngine(program, {
      ...{ seed, kernels, spans: measure },
      ...(flightRecord === undefined ? {} : { flightRecord }),
    })
    const ranks = worldOf(program.mesh)
    let spans: Span[] = []
    return {
      description: `${engine.kernels.description}, ${ranks > 1 ? `${ranks} ranks, a thread each` : 'one rank'}`,
      concurrent: true,
      async step(data) {
        const outcome = await engine.step(data)
        if (measure)
          spans = engine
            .spans()
            .map(({ command: _, start, end, ...where }) =>
              spanOf(program, { ...where, start: seconds(start), end: seconds(end) }),
            )
        return outcome
      },
      parameter: name => engine.parameter(name),
      setParameter: (name, values) => engine.setParameter(name, values),
      held: ({ rank, frame }) => engine.held(rank, frame),
      // All of it is f32: writing rounds.
      hold: ({ rank, frame }, values) => engine.held(rank, frame).set(values),
      get peaks() {
        return engine.peaks
      },
      get spans() {
        return spans
      },
      stop: () => engine.stop(),
    }
  }
