/** The reference interpreter as one of the engines: slow and exact, all ranks in one thread, with spans where asked. */
import { worldOf } from '../../base/index.js'
import type { Program } from '../../ir/index.js'
import { laneOf, lanes, type SpanColumns, SpanWriter, spansOfRanks } from '../../trace/index.js'
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
    get columns() {
      return measure ? clock.columns : []
    },
    get spans() {
      return measure ? spansOfRanks(clock.columns) : []
    },
  }
}

/** Is told when an instruction is done: it began when the one before, of whichever rank, was. */
class Stopwatch {
  readonly #program: Program
  readonly #started = performance.now()
  #last = 0
  #writers: readonly SpanWriter[] = []

  constructor(program: Program) {
    this.#program = program
  }

  get columns(): SpanColumns[] {
    return this.#writers.map(writer => writer.columns([]))
  }

  restart(): void {
    this.#writers = Array.from({ length: worldOf(this.#program.mesh) }, () => new SpanWriter())
    this.#last = this.#now()
  }

  observe({ rank, step, call, instr }: Observation): void {
    const end = this.#now()
    const index = this.#program.segments[call.segment].instrs.indexOf(instr)
    const lane = lanes.indexOf(laneOf(this.#program, { rank, step, instr: index }))
    this.#writers[rank].add({ step, instr: index, lane }, this.#last, end)
    this.#last = end
  }

  #now(): number {
    return (performance.now() - this.#started) / 1000
  }
}
