/** Latent attention: DeepSeek's own numbers, laws of what it adds to programs, plans, and jobs that make no sense. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { elementsOf } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import { boot } from '../src/engine/index.js'
import { parse, print, verifyStructure } from '../src/ir/index.js'
import {
  defineModel,
  flopsPerToken,
  type LlamaConfig,
  ModelConfig,
  normal,
  parametersOf,
  presets,
} from '../src/model/index.js'
import { latentAttention, latentSizes } from '../src/model/latent.js'
import type { LlamaDim } from '../src/model/transformer.js'
import { check, Job, rehearsalOf, rehearsalSizes } from '../src/plan/index.js'
import { family, test } from './families.js'
import { type FixtureTensor, readFixture, tensorOf } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, models, shallow, titleOf } from './jobs.js'
import { greatest, programOf } from './one-rank.js'

interface Fixture {
  readonly config: Readonly<
    Record<'num_attention_heads' | 'kv_lora_rank' | 'qk_rope_head_dim' | 'qk_nope_head_dim' | 'v_head_dim', number>
  > & {
    readonly q_lora_rank?: number | null
    readonly rope_interleave?: boolean
    readonly rope_parameters: { readonly rope_theta: number }
  }
  readonly rms_norm_eps_of_latents: number
  readonly params: Readonly<
    Record<string, { readonly dims: readonly number[] } & Record<'value' | 'grad', readonly number[]>>
  >
  readonly x: FixtureTensor
  readonly dout: FixtureTensor
  readonly out: FixtureTensor
  readonly dx: FixtureTensor
}

const given: Fixture = JSON.parse(readFixture('cp/mla_attention.json'))
const mla = {
  ...(given.config.q_lora_rank != null && { qLoraRank: given.config.q_lora_rank }),
  kvLoraRank: given.config.kv_lora_rank,
  ...{ qkRopeHeadDim: given.config.qk_rope_head_dim, qkNopeHeadDim: given.config.qk_nope_head_dim },
  ...{ vHeadDim: given.config.v_head_dim, eps: given.rms_norm_eps_of_latents },
}
const [x, dout, out, dx] = [given.x, given.dout, given.out, given.dx].map(of => tensorOf(of, 'batch seq embed'))
const [batch, seq, embed] = x.dims.map(({ size }) => size)
const heads = given.config.num_attention_heads
const config = ModelConfig.parse({
  ...{ family: 'llama', layers: 1, embed, heads, ffn: 1, vocab: 1, mla },
  ropeTheta: given.config.rope_parameters.rope_theta,
}) as LlamaConfig

/** x is a parameter, so that it has a gradient; the loss is one whose gradient, at the right result, is `dout`. */
const attentionAlone = () =>
  defineModel(
    'attention',
    {
      ...{
        batch,
        seq,
        embed,
        kvHeads: heads,
        group: 1,
        headDim: mla.qkNopeHeadDim + mla.qkRopeHeadDim,
        ffn: 1,
        vocab: 1,
      },
      ...latentSizes(mla),
    } as Readonly<Record<LlamaDim, number>>,
    model =>
      model.block('only', b => {
        const x = b.param('x', ['batch', 'seq', 'embed'], normal(1))
        b.meanSquare(latentAttention(b, x, { ...config, mla }, {}), b.input('target', ['batch', 'seq', 'embed']))
        return {}
      }),
  )

/** Rows of a matrix [out, in] by index, as [in, out]. */
function columns(values: readonly number[], width: number, rows: readonly number[]): number[] {
  return Array.from({ length: width }, (_, i) => rows.map(row => values[row * width + i])).flat()
}

const range = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i)
/** Pairs that turn, as halves: they are side by side unless the config says otherwise. */
const halves = (from: number, size: number) =>
  given.config.rope_interleave === false
    ? range(from, size)
    : range(0, size).map(i => from + (i < size / 2 ? 2 * i : 2 * (i - size / 2) + 1))
const perHead = (width: number, of: (first: number) => number[]) => range(0, heads).flatMap(head => of(head * width))

/** Ours by name, from tensors by the names of Hugging Face. */
const ours = (of: (name: string) => readonly number[]): Record<string, readonly number[]> => {
  const { qLoraRank, kvLoraRank, qkRopeHeadDim, qkNopeHeadDim, vHeadDim } = mla
  const [asked, known] = [qkNopeHeadDim + qkRopeHeadDim, qkNopeHeadDim + vHeadDim]
  const asking = of(qLoraRank === undefined ? 'q_proj.weight' : 'q_b_proj.weight')
  const plainOf = (width: number) => perHead(width, first => range(first, qkNopeHeadDim))
  return {
    ...(qLoraRank !== undefined && {
      'q.down': columns(of('q_a_proj.weight'), embed, range(0, qLoraRank)),
      'q.norm.weight': of('q_a_layernorm.weight'),
    }),
    'q.plain': columns(asking, qLoraRank ?? embed, plainOf(asked)),
    'q.rope': columns(
      asking,
      qLoraRank ?? embed,
      perHead(asked, first => halves(first + qkNopeHeadDim, qkRopeHeadDim)),
    ),
    'kv.down': columns(of('kv_a_proj_with_mqa.weight'), embed, range(0, kvLoraRank)),
    'kv.norm.weight': of('kv_a_layernorm.weight'),
    'k.rope': columns(of('kv_a_proj_with_mqa.weight'), embed, halves(kvLoraRank, qkRopeHeadDim)),
    'k.plain': columns(of('kv_b_proj.weight'), kvLoraRank, plainOf(known)),
    v: columns(
      of('kv_b_proj.weight'),
      kvLoraRank,
      perHead(known, first => range(first + qkNopeHeadDim, vHeadDim)),
    ),
    out: columns(of('o_proj.weight'), heads * vHeadDim, range(0, embed)),
  }
}

test('latent attention and all its gradients are those of transformers’ DeepseekV3Attention', () => {
  const machine = boot(
    programOf(attentionAlone, {}, { optimizer: { kind: 'sgd', lr: 1, momentum: 0, weightDecay: 0 } }),
    {
      seed: 1,
    },
  )
  const [values, gradients] = (['value', 'grad'] as const).map(of =>
    ours(name => {
      const { dims, [of]: values } = given.params[name]
      equal(
        values.length,
        dims.reduce((n, size) => n * size, 1),
        name,
      )
      return values
    }),
  )
  for (const [name, value] of Object.entries(values))
    machine.setParameter(`only.attn.${name}`, Float64Array.from(value))
  machine.setParameter('only.x', Float64Array.from(x.values))
  const count = elementsOf(out.dims)
  const target = Float64Array.from(out.values, (value, i) => value - (dout.values[i] * count) / 2)
  machine.step({ inputs: () => target, lr: 0, step: 0 })
  const near = (name: string, expected: ArrayLike<number>) => {
    const actual = machine.gradient(name)
    equal(actual.length, expected.length, name)
    const worst = greatest(Array.from(expected, (value, i) => value - actual[i])) / greatest(expected)
    ok(worst < 1e-12, `the gradient of ${name} is off by ${worst}`)
  }
  near('only.x', dx.values)
  for (const [name, expected] of Object.entries(gradients)) near(`only.attn.${name}`, expected)
})

const plans = [
  {},
  { tp: 2, recompute: 'selective' },
  { tp: 4, sequenceParallel: true, zero: 1, dp: 2 },
  { cp: 2, tp: 2, sequenceParallel: true, zero: 3, recompute: 'full' },
  { cp: 2, zigzag: false, pp: 2, microbatches: 4, schedule: 'zb-v', recompute: ['join', 'rope', 'contract'] },
  { dp: 2, pp: 2, tp: 2, microbatches: 4, schedule: 'dualpipe', zero: 2 },
] as const

const tested = family('latent attention (MLA)', 8)
for (const plan of plans)
  tested(`latent attention with ${titleOf(plan as object)} computes what one rank computes`, () =>
    computesWhatOneRankComputes(shallow(jobOf('latent', plan as object))),
  )

test('a small DeepSeek, latent attention and experts, computes on 8 ranks what one computes', () =>
  computesWhatOneRankComputes(
    Job.parse({
      model: { ...presets['deepseek-tiny'], layers: 2 },
      training: { seq: 8, globalBatch: 4, clip: 0.5 },
      plan: { dp: 2, cp: 2, tp: 2, ep: 4, expertCapacity: 'worst' },
    }),
  ))

test('a model of the family has as many parameters as are counted', () => {
  for (const qLoraRank of [undefined, 3]) {
    const { model, ...job } = jobOf('latent', {})
    const changed = ModelConfig.parse({ ...models.latent, mla: { ...models.latent.mla, qLoraRank } })
    const program = compileJob({ ...job, model: changed })
    equal(
      program.params.reduce((sum, { dims }) => sum + elementsOf(dims), 0),
      parametersOf(changed, 4),
    )
  }
})

test('attention of queries and keys 5 wide, and values 4 wide, counts as 4.5', () => {
  const model = ModelConfig.parse(models.latent)
  equal(flopsPerToken(model, 10) - 6 * parametersOf(model, 10), 12 * 4 * 4 * 4.5 * 10)
})

const text = () => print(compileJob(jobOf('latent', { tp: 2 })))

test('a program with joins, scales and scaled positions prints and parses back', () => {
  ok(/= join %/.test(text()) && /scale=0\.\d+/.test(text()) && /scaling=yarn:/.test(text()))
  equal(print(parse(text())), text())
})

/** A change of the text, the law it breaks and what is said. */
// biome-ignore format: one line is one broken program
const broken: readonly [string, (text: string) => string, law: string, says: RegExp][] = [
  ['a joined dim of another size', t => t.replace(/(buffer %k f32 @\S+ \[.*headDim:)5/g, '$16'), 'T3', /qkNopeHeadDim 3 and qkRopeHeadDim 2 are not headDim 6/],
  ['a part joined twice', t => t.replace(/= join %(\S+) %\S+/, '= join %$1 %$1'), 'T3', /qkNopeHeadDim 3 and qkNopeHeadDim 3 are not headDim 5/],
  ['the joined dim split over ranks', t => t.replace(/(buffer %k f32 @\S+ \[.*kvHeads:\d+)\/tp( headDim:)5\]/g, '$1$25/tp]'), 'T1', /headDim is split over tp|kvHeads/],
  ['values as wide as keys by declaration', t => t.replace(/(buffer %attention f32 @\S+ \[.*)vHeadDim:4/g, '$1headDim:5'), 'T3', /cannot have dims/],
  ['three operands', t => t.replace(/= join %(\S+) %(\S+)/, '= join %$1 %$2 %$2'), 'W2', /join/],
]

for (const [what, edit, law, says] of broken)
  test(`[${law}] ${what}`, () => {
    const changed = edit(text())
    ok(changed !== text(), 'nothing was changed')
    const found = verifyStructure(parse(changed))
    ok(
      found.some(violation => violation.law === law && says.test(violation.message)),
      found
        .map(({ law, message }) => `${law} ${message}`)
        .slice(0, 4)
        .join('\n'),
    )
  })

test('sizes of latent attention that contradict others are problems', () => {
  const job = jobOf('latent', {})
  const says = (change: object) =>
    check({ ...job, model: { ...(job.model as LlamaConfig), ...change } }).map(p => `${p.path} ${p.message}`)
  deepEqual(says({}), [])
  deepEqual(says({ kvHeads: 2 }), ['model.kvHeads kvHeads 2, but latent attention has a key for each of 4 heads'])
  deepEqual(says({ headDim: 4 }), ['model.headDim headDim 4, but qkNopeHeadDim 3 + qkRopeHeadDim 2 = 5'])
  deepEqual(says({ mla: { ...models.latent.mla, qkRopeHeadDim: 3, qkNopeHeadDim: 2 } }), [
    'model.mla.qkRopeHeadDim qkRopeHeadDim 3 is odd, but rotary positions rotate pairs',
  ])
  deepEqual(says({ qkNorm: true }), ['model.qkNorm latent attention has no q/k norm'])
})

test('a rehearsal keeps latent attention, narrower', () => {
  const wide = { qLoraRank: 1536, kvLoraRank: 512, qkRopeHeadDim: 64, qkNopeHeadDim: 128, vHeadDim: 128, eps: 1e-3 }
  const job = jobOf('latent', { tp: 2 })
  const large = { ...job, model: ModelConfig.parse({ ...models.latent, embed: 512, heads: 16, mla: wide }) }
  const small = rehearsalOf(large, rehearsalSizes[0]).job
  deepEqual((small.model as LlamaConfig).mla, {
    qLoraRank: 5,
    kvLoraRank: 4,
    qkRopeHeadDim: 2,
    qkNopeHeadDim: 2,
    vHeadDim: 2,
    eps: 1e-3,
  })
  computesWhatOneRankComputes(small)
})
