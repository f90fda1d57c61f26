/**
 * Whole models with experts beside transformers: the loss and its parts, the routing of every layer, and the gradient of every
 * parameter, to 1e-12. A fixture is read as a Hugging Face folder would be, values and gradients alike.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { elementsOf, hasErrors } from '../src/base/index.js'
import { memoryFiles } from '../src/base/memory-files.js'
import { printSafetensors } from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import { boot } from '../src/engine/index.js'
import { check, Job, type JobInput } from '../src/plan/index.js'
import { type WeightSource, weightSource } from '../src/weights/index.js'
import { byWeight } from './experts-fixtures.js'
import { close, type FixtureTensor, fixtureNames, readFixture, tensorOf } from './fixtures.js'

type Losses = Readonly<Partial<Record<'microbatch' | 'sequence' | 'sequence_sigmoid' | 'z', number>>>
type Part = 'value' | 'grad'

interface Fixture {
  readonly config: object
  readonly aux_settings: Losses
  readonly tokens: readonly (readonly number[])[]
  readonly labels: readonly (readonly number[])[]
  readonly loss: number
  readonly loss_parts: Losses & { readonly ce: number }
  readonly routing: Readonly<Record<string, { readonly indices: FixtureTensor; readonly weights: FixtureTensor }>>
  readonly params: Readonly<Record<string, { readonly dims: readonly number[] } & Record<Part, readonly number[]>>>
  readonly buffers?: Readonly<Record<string, readonly number[]>>
}

/** The fixture as a folder of weights, or of gradients in their place. */
function sourceOf({ config, params, buffers = {}, tokens }: Fixture, part: Part): WeightSource {
  const files = memoryFiles()
  const tensors = Object.entries(params).map(([name, { dims, [part]: values }]) => {
    const shape = [...dims]
    return [name, { dtype: 'f64' as const, shape, values: Float64Array.from(values) }] as const
  })
  const biases = Object.entries(buffers).map(([name, values]) => {
    const shape = [values.length]
    return [name, { dtype: 'f64' as const, shape, values: Float64Array.from(values) }] as const
  })
  files.write('model/config.json', JSON.stringify(config))
  files.write('model/model.safetensors', printSafetensors(Object.fromEntries([...tensors, ...biases]), {}))
  return weightSource('model', files, { seq: tokens[0].length })
}

/** Losses that balance the experts, in our words. */
const lossesOf = ({ sequence_sigmoid, ...losses }: Losses): Losses => ({
  ...losses,
  ...(sequence_sigmoid !== undefined && { sequence: sequence_sigmoid }),
})

/** The job of a model by its config, with losses that were added beside that of tokens. */
function jobOf(fixture: Fixture, source: WeightSource, losses: Losses, plan: JobInput['plan']): Job {
  const { config: model } = source.folder
  if (model.family !== 'llama' || !model.moe) throw new Error('a model with experts')
  const training = { seq: fixture.tokens[0].length, globalBatch: fixture.tokens.length }
  const moe = { ...model.moe, loss: lossesOf(losses) }
  return Job.parse(JSON.parse(JSON.stringify({ model: { ...model, moe }, training, plan })))
}

/** A step of the model: its loss, the gradients, and the results of the named instructions in the order of the layers. */
function stepOf(fixture: Fixture, source: WeightSource, job: Job, kinds: readonly string[] = []) {
  const program = compileJob(job)
  const seen: Record<string, { dims: readonly (readonly [string, number])[]; data: number[] }[]> = {}
  const machine = boot(program, {
    seed: 1,
    observe: ({ call, instr, read }) => {
      if (!kinds.includes(instr.kind) || !('outs' in instr)) return
      const [out] = instr.outs
      const { dims } = program.segments[call.segment].buffers[out]
      seen[instr.kind] ??= []
      seen[instr.kind].push({ dims: dims.map(({ name, size }) => [name, size]), data: Array.from(read(out)) })
    },
  })
  for (const { name } of program.params) machine.setParameter(name, source.tensor(`param.${name}`))
  const inputs = (input: string) => (input === 'tokens' ? fixture.tokens : fixture.labels).flat()
  return { program, machine, seen, loss: machine.step({ inputs, lr: 0, step: 0 }).loss }
}

const read = (name: string): Fixture => JSON.parse(readFixture(`moe/${name}`))

const plans = [
  {},
  { dp: 2, ep: 2, expertCapacity: 'worst' },
  { cp: 2, tp: 2, ep: 2, sequenceParallel: true, expertCapacity: 'worst' },
] as const

for (const name of fixtureNames('moe', /^model_.*\.json$/)) {
  for (const plan of plans)
    test(`${name} computes what transformers computes (${Object.entries(plan).flat().join(' ') || 'one rank'})`, () => {
      const fixture = read(name)
      const [values, gradients] = (['value', 'grad'] as const).map(part => sourceOf(fixture, part))
      const job = jobOf(fixture, values, fixture.aux_settings, plan)
      if (Object.keys(plan).length > 0 && hasErrors(check(job))) return // these sizes cannot be split so
      const { program, machine, loss } = stepOf(fixture, values, job)
      close([loss], [fixture.loss], 'loss')
      for (const { name, dims } of program.params.filter(({ name }) => !name.endsWith('mlp.bias'))) {
        const gradient = machine.gradient(name)
        ok(gradient.length === elementsOf(dims))
        close(gradient, gradients.tensor(`param.${name}`), name)
      }
    })

  test(`${name}: each part of the loss is that of transformers, and their sum the whole`, () => {
    const fixture = read(name)
    const source = sourceOf(fixture, 'value')
    const { ce, ...parts } = fixture.loss_parts
    const lossWith = (losses: Losses) => stepOf(fixture, source, jobOf(fixture, source, losses, {})).loss
    const plain = lossWith({})
    close([plain], [ce], 'cross entropy')
    deepEqual(Object.keys(parts).sort(), Object.keys(fixture.aux_settings).sort())
    for (const [part, value] of Object.entries(parts) as [keyof Losses, number][])
      close([lossWith({ [part]: fixture.aux_settings[part] }) - plain], [value], part)
  })

  test(`${name}: tokens go to the experts that transformers chooses, with its weights`, () => {
    const fixture = read(name)
    const source = sourceOf(fixture, 'value')
    const { seen } = stepOf(fixture, source, jobOf(fixture, source, fixture.aux_settings, {}), ['topK', 'chosen'])
    const layers = Object.keys(fixture.routing).sort()
    const routed = source.folder.map.params.filter(({ name }) => name.endsWith('mlp.router'))
    deepEqual(
      layers,
      routed.map(({ forms }) => forms[0][0].tensor.replace(/\.weight$/, '').replace('block_sparse_moe', 'mlp')).sort(),
    )
    for (const [i, layer] of layers.entries()) {
      const { indices, weights } = fixture.routing[layer]
      const [choice, weight] = [seen.topK[i], seen.chosen[i]].map(of => tensorOf(of, 'batch seq choice'))
      const ours = byWeight(choice, weight)
      deepEqual(ours.choices, tensorOf(indices, 'batch seq choice').values)
      close(ours.weights, tensorOf(weights, 'batch seq choice').values, 'weights')
    }
  })
}
