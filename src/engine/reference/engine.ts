/** The reference interpreter as one of the engines: slow and exact, all ranks in one thread, with spans where asked. */
import { seconds } from '../../base/index.js'
import type { Program } from '../../ir/index.js'
import { type Span, spanOf } from '../../trace/index.js'
import { ChoiceBook } from '../choices.js'
import type { Runner, StartOptions, StepResult } from '../runner.js'
import { boot } from './machine.js'
import type { Observation } from './world.js'

export async function startReference(program: Program, options: StartOptions): Promise<Runner<StepResult>> {
  const { seed, measure } = options
  const clock = new Stopwatch(program)
  const book = options.choices ? new ChoiceBook(program) : undefined
  // All digits where nothing is rounded; else those the program stores.
  const precision = program.params.some(({ dtype }) => dtype !== 'f32') ? 'f32' : 'f64'
  const observe = (done: Observation) => {
    if (measure) clock.observe(done)
    const { rank, call, instr, read } = done
    if (book && instr.kind === 'topK')
      book.write(rank, call, program.segments[call.segment].buffers[instr.outs[0]], read(instr.outs[0]))
  }
  const watch = measure || book ? { observe } : {}
  const runner = boot(program, { seed, precision, ...watch })
  return {
    ...runner,
    step(data) {
      clock.restart()
      return runner.step(data)
    },
    choices: book?.choices ?? new Map(),
    get spans() {
      return clock.spans
    },
  }
}

/** Is told when an instruction is done: it began when the one before, of whichever rank, was. */
class Stopwatch {
  readonly #program: Program
  readonly #started = performance.now()
  #last = 0
  spans: Span[] = []

  constructor(program: Program) {
    this.#program = program
  }

  restart(): void {
    this.spans = []
    this.#last = this.#now()
  }

  observe({ rank, step, call, instr }: Observation): void {
    const end = this.#now()
    const index = this.#program.segments[call.segment].instrs.indexOf(instr)
    const measured = { rank, step, instr: index, start: seconds(this.#last), end: seconds(end) }
    this.spans.push(spanOf(this.#program, measured))
    this.#last = end
  }

  #now(): number {
    return (performance.now() - this.#started) / 1000
  }
}
