/** Whole models with experts beside transformers: the loss with its parts, and the gradient of every parameter, to 1e-12. */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { elementsOf, hasErrors } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import { boot } from '../src/engine/index.js'
import { offsets } from '../src/geometry/index.js'
import { fromHuggingFace } from '../src/model/index.js'
import { check, Job, type JobInput } from '../src/plan/index.js'
import { readFixture } from './fixtures.js'

interface Fixture {
  readonly config: object
  readonly aux_settings: Readonly<Record<string, number>>
  readonly tokens: readonly (readonly number[])[]
  readonly labels: readonly (readonly number[])[]
  readonly loss: number
  readonly params: Readonly<Record<string, { readonly value: readonly number[]; readonly grad: readonly number[] }>>
}

/** Theirs: a name, and our dims in the order of its elements; of a tensor that holds two, which half. */
type Source = readonly [name: string, dims: string, half?: 0 | 1]

const perLayer: Readonly<Record<string, Source>> = {
  'norm1.gain': ['input_layernorm.weight', 'embed'],
  'norm2.gain': ['post_attention_layernorm.weight', 'embed'],
  'attn.q': ['self_attn.q_proj.weight', 'kvHeads group headDim embed'],
  'attn.k': ['self_attn.k_proj.weight', 'kvHeads headDim embed'],
  'attn.v': ['self_attn.v_proj.weight', 'kvHeads headDim embed'],
  'attn.out': ['self_attn.o_proj.weight', 'embed kvHeads group headDim'],
  'attn.q.norm.gain': ['self_attn.q_norm.weight', 'headDim'],
  'attn.k.norm.gain': ['self_attn.k_norm.weight', 'headDim'],
  'mlp.gate': ['mlp.gate_proj.weight', 'ffn embed'],
  'mlp.up': ['mlp.up_proj.weight', 'ffn embed'],
  'mlp.down': ['mlp.down_proj.weight', 'embed ffn'],
  'mlp.router': ['mlp.gate.weight', 'candidate embed'],
  'mlp.experts.gate': ['mlp.experts.gate_up_proj', 'expert expertFfn embed', 0],
  'mlp.experts.up': ['mlp.experts.gate_up_proj', 'expert expertFfn embed', 1],
  'mlp.experts.down': ['mlp.experts.down_proj', 'expert embed expertFfn'],
}
const others: Readonly<Record<string, Source>> = {
  'embed.tokens': ['model.embed_tokens.weight', 'vocab embed'],
  'head.norm.gain': ['model.norm.weight', 'embed'],
  'head.out': ['lm_head.weight', 'vocab embed'],
}

function sourceOf(param: string): Source {
  const [, layer, local] = /^layers\.(\d+)\.(.*)$/.exec(param) ?? []
  if (layer === undefined) return others[param]
  const [name, ...rest] = perLayer[local]
  return [`model.layers.${layer}.${name}`, ...rest]
}

/** The job of a model by its config, with the losses that were added beside that of tokens. */
function jobOf({ config, tokens, aux_settings: loss }: Fixture, plan: JobInput['plan']): Job {
  const { config: model, problems } = fromHuggingFace(config)
  if (model?.family !== 'llama' || !model.moe) throw new Error(problems.map(({ message }) => message).join('; '))
  const training = { seq: tokens[0].length, globalBatch: tokens.length }
  return Job.parse(JSON.parse(JSON.stringify({ model: { ...model, moe: { ...model.moe, loss } }, training, plan })))
}

for (const name of ['mixtral', 'qwen3_moe'])
  for (const plan of [
    {},
    { dp: 2, ep: 2, rows: 'worst' },
    { cp: 2, tp: 2, ep: 2, sequenceParallel: true, rows: 'worst' },
  ] as const)
    test(`${name} computes what transformers computes (${Object.entries(plan).flat().join(' ') || 'one rank'})`, () => {
      const fixture = JSON.parse(readFixture(`moe/model_${name}.json`)) as Fixture // as its generator wrote it
      const job = jobOf(fixture, plan)
      if (Object.keys(plan).length > 0 && hasErrors(check(job))) return // these sizes cannot be split so
      const program = compileJob(job)
      const machine = boot(program, { seed: 1 })
      /** Their numbers in the order of our dims. */
      const ours = (param: (typeof program.params)[number], kind: 'value' | 'grad'): Float64Array => {
        const [source, names, half] = sourceOf(param.name)
        const theirs = names.split(' ').map(name => param.dims.find(dim => dim.name === name)!)
        const all = fixture.params[source][kind]
        const size = elementsOf(theirs.slice(1))
        const values =
          half === undefined
            ? all
            : Array.from(
                { length: all.length / 2 },
                (_, i) => all[(2 * Math.floor(i / size) + half) * size + (i % size)],
              )
        return Float64Array.from(offsets(param.dims, theirs), at => values[at])
      }
      for (const param of program.params) machine.setParameter(param.name, ours(param, 'value'))
      const inputs = (input: string) => (input === 'tokens' ? fixture.tokens : fixture.labels).flat()
      const { loss } = machine.step({ inputs, lr: 0, step: 0 })
      ok(Math.abs(loss - fixture.loss) < 1e-12 * fixture.loss, `loss ${loss}, not ${fixture.loss}`)
      for (const param of program.params) {
        const [got, right] = [machine.gradient(param.name), ours(param, 'grad')]
        const worst = right.reduce((most, value, i) => Math.max(most, Math.abs(value - got[i])), 0)
        ok(worst < 1e-12, `the gradient of ${param.name} is off by ${worst}`)
      }
    })
