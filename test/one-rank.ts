/**
 * Models compiled in the plainest order, one microbatch after the other, and a machine to run them on. Weights are
 * drawn wide, biases and gains too: at the usual start many gradients are so small that a wrong one hides.
 */
import { normal } from '../src/base/index.js'
import { compile } from '../src/compile/index.js'
import { boot, type Interpreter, syntheticData } from '../src/engine/index.js'
import { inputsOf } from '../src/geometry/index.js'
import type { Program } from '../src/ir/index.js'
import { buildModel, type Model, ModelConfig, type ModelInput } from '../src/model/index.js'
import { Plan, type PlanInput, Training } from '../src/plan/index.js'
import type { Schedule } from '../src/schedule/index.js'

export const [globalBatch, seq] = [4, 5]

/** F0 B0 F1 B1 ... on every stage. */
const plainSchedule = (stages: number, microbatches: number): Schedule => ({
  stages,
  microbatches,
  rows: Array.from({ length: stages }, (_, stage) =>
    Array.from({ length: microbatches }, (_, microbatch) =>
      (['F', 'B'] as const).map(kind => ({ kind, stage, microbatch })),
    ).flat(),
  ),
})

export type Build = (batch: number) => Model

export const familyModel =
  (config: ModelInput): Build =>
  batch =>
    buildModel(ModelConfig.parse(config), { batch, seq })

export function programOf(
  build: Build,
  planned: PlanInput = {},
  training: Partial<Pick<Training, 'optimizer' | 'clip'>> = {},
): Program {
  const plan = Plan.parse(planned)
  return compile({
    model: build(globalBatch / plan.microbatches),
    plan,
    training: Training.parse({ seq, globalBatch, ...training }),
    schedule: plainSchedule(plan.pp, plan.microbatches),
  })
}

/** Every input of one step, drawn once. */
export function dataOf(program: Program, vocab: number, step = 0): (name: string) => Float64Array {
  const draw = syntheticData(inputsOf(program), vocab, 3)(step)
  const drawn = new Map(program.inputs.map(({ name }) => [name, draw(name)]))
  return name => drawn.get(name)!
}

/** A machine whose parameters all matter. */
export function wideMachine(program: Program): Interpreter {
  const machine = boot(program, { seed: 1 })
  for (const { name, init } of program.params) {
    const noise = normal({ seed: 2, name })
    const [centre, width] = init.kind === 'ones' ? [1, 0.2] : [0, 0.4]
    machine.setParameter(
      name,
      machine.parameter(name).map((_, i) => centre + width * noise(i)),
    )
  }
  return machine
}

export const greatest = (values: ArrayLike<number>): number =>
  Array.from(values).reduce((most, value) => Math.max(most, Math.abs(value)), 0)

/** A tensor's largest gradient, or a share of the model's where theory says 0 (the key bias: only rounding is left). */
export function gradientScales(gradients: ReadonlyMap<string, ArrayLike<number>>, share: number): Map<string, number> {
  const own = new Map([...gradients].map(([name, values]) => [name, greatest(values)]))
  const floor = share * Math.max(...own.values())
  return new Map([...own].map(([name, scale]) => [name, Math.max(scale, floor)]))
}
