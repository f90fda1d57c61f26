/** Jobs written for other frameworks and read again: what comes back is the job, but for what was named. */
import { deepEqual, doesNotMatch, equal, match, notEqual, ok } from 'node:assert/strict'
import process from 'node:process'
import { exportJob, importConfig } from '../src/interop/index.js'
import { flagNamed } from '../src/interop/megatron/flags.js'
import { type ForeignFramework, Job } from '../src/plan/index.js'
import { family, test } from './families.js'
import { changedFields } from './fuzz/exporting.js'
import { lockstep } from './memory-io.js'

/** Numbers that follow from a seed. */
function drawing(seed: number) {
  let state = seed * 2654435761 + 1
  const next = () => (state = (Math.imul(state ^ (state >>> 15), 2246822519) + 3266489917) >>> 0) / 2 ** 32
  return <T>(...choices: readonly T[]): T => choices[Math.floor(next() * choices.length)]
}

const llama = { family: 'llama', layers: 8, embed: 64, heads: 8, kvHeads: 8, ffn: 128, vocab: 256 } as const

/** A job of the kind that a framework has words for; some of them it has none for. */
function drawn(seed: number, to: ForeignFramework): Job {
  const draw = drawing(seed)
  const bare = to === 'picotron'
  const [dp, tp, microbatches] = [draw(1, 2, 4), draw(1, 2), draw(1, 2, 4)]
  const pp = to === 'accelerate' ? 1 : draw(1, 1, 2, 4)
  const warmup = bare ? 0 : draw(0, 10, 100)
  const optimizer = {
    kind: 'adamw',
    lr: draw(1e-3, 3e-4, 2e-5),
    beta2: bare ? 0.999 : draw(0.95, 0.999),
    weightDecay: bare ? 0.01 : draw(0, 0.1),
  }
  const precision = bare ? draw('pure-bf16', 'f32') : draw('bf16', 'f32')
  return Job.parse({
    model: llama,
    training: {
      ...{
        seq: 128,
        globalBatch: dp * microbatches * draw(1, 2),
        steps: draw(1000, 5000),
        seed: draw(1, 7),
        optimizer,
      },
      ...(!bare && draw(true, false) && { clip: draw(1, 0.5) }),
      lrSchedule: {
        kind: bare ? 'constant' : draw('constant', 'linear', 'cosine'),
        warmup,
        ...(warmup > 0 && draw(true, false) && { warmupFrom: 0 }),
      },
    },
    plan: {
      ...{
        dp,
        tp,
        pp,
        microbatches,
        precision,
        zero: bare ? 0 : to === 'nanotron' ? draw(0, 1) : to === 'torchtitan' ? draw(0, 3) : draw(0, 1, 2, 3),
      },
      ...(tp > 1 && (to === 'torchtitan' || (to === 'nanotron' && draw(true, false))) && { sequenceParallel: true }),
      ...(to !== 'picotron' && { recompute: draw('none', 'full') }),
      ...(pp > 1 && to !== 'deepspeed' && { schedule: draw('1f1b', 'gpipe') }),
    },
  })
}

const holds = [
  'plan.dp',
  'plan.tp',
  'plan.pp',
  'plan.zero',
  'plan.microbatches',
  'plan.precision',
  'training.globalBatch',
  'training.optimizer',
  'training.clip',
]
const count = Number(process.env.LOCKSTEP_EXPORTS ?? 15)
const law = family('config round trips', 1)

for (const to of ['megatron', 'deepspeed', 'accelerate', 'torchtitan', 'nanotron', 'picotron'] as const)
  law(`${to}: ${count} jobs (seeds 1 on) come back, but for what is named`, () => {
    let written = 0
    for (let seed = 1; written < count && seed < 50 * count; seed++) {
      const job = drawn(seed, to)
      const { files, given, unsaid, refused } = exportJob(job, to)
      if (refused.length > 0) continue
      written++
      const { job: back = {} } = importConfig([...files.values()][0], given)
      const named = unsaid.map(({ path }) => path)
      const others = changedFields(job, back).filter(path => path !== 'plan.layers')
      deepEqual(
        others.filter(path => !named.includes(path)),
        [],
        `seed ${seed}`,
      )
      deepEqual(
        others.filter(path => holds.includes(path)),
        [],
        `seed ${seed}`,
      )
    }
    equal(written, count)
  })

/** Flags of a script, and the words behind each. */
const flagsIn = (script: string): (readonly [string, number])[] =>
  script
    .split('\n')
    .slice(4, -2)
    .map(line => line.trim().replace(/ \\$/, ''))
    .map(line => [line.split(' ')[0], line.includes("'") ? 1 : line.split(' ').length - 1] as const)

test('Megatron knows every flag it is given, with as many words', () => {
  const moe = { experts: 8, topK: 2, ffn: 64, shared: 64, dense: 2, loss: { sequence: 0.01, z: 0.001 } }
  const jobs = [
    {
      model: llama,
      plan: { dp: 2, tp: 2, pp: 2, zero: 1, microbatches: 4, sequenceParallel: true, precision: 'bf16' },
    },
    {
      model: { ...llama, moe, kvHeads: 4, window: 32 },
      plan: { dp: 4, ep: 4, cp: 2, attention: 'ring', fp8: { recipe: 'delayed' }, precision: 'bf16' },
    },
    {
      model: { ...llama, layers: 7 },
      plan: { pp: 2, chunks: 2, schedule: 'interleaved', microbatches: 4, recompute: 'full' },
    },
    {
      model: { family: 'gpt', layers: 8, embed: 64, heads: 8, vocab: 256, dropout: 0.1 },
      plan: { dp: 2, microbatches: 2, zero: 3, precision: 'f16' },
      training: { lossScale: { kind: 'megatron' }, globalBatch: 32, batchRamp: [{ globalBatch: 16, until: 160 }] },
    },
  ]
  for (const { model, plan, training } of jobs) {
    const job = Job.parse({ model, plan, training: { seq: 128, globalBatch: 16, ...training } })
    const { files, refused } = exportJob(job, 'megatron')
    deepEqual(refused, [])
    const flags = flagsIn(files.get('megatron.sh')!)
    ok(flags.length > 30)
    for (const [name, words] of flags) {
      const { arity, until, fork } = flagNamed(name) ?? {}
      ok(until === undefined && fork === undefined && (arity === 'none' ? words === 0 : words > 0), `${name}: ${arity}`)
    }
  }
})

test('Megatron is told by which greatest values a delayed scale goes, and says so', () => {
  for (const algo of ['max', 'most_recent'] as const) {
    const fp8 = { recipe: 'delayed', algo } as const
    const plan = { precision: 'bf16', fp8 } as const
    const job = Job.parse({ model: llama, training: { seq: 128, globalBatch: 4 }, plan })
    const { files, given } = exportJob(job, 'megatron')
    const { job: back } = importConfig(files.get('megatron.sh')!, given)
    equal(Job.parse(back).plan.fp8?.algo, algo)
  }
})

test('refused where it would be another training', () => {
  const job = (plan: object) => Job.parse({ model: llama, training: { seq: 128, globalBatch: 8 }, plan })
  const refusal = (plan: object, to: ForeignFramework) => exportJob(job(plan), to).refused.map(({ path }) => path)
  deepEqual(refusal({ pp: 2, zero: 2, dp: 2, microbatches: 2 }, 'deepspeed'), ['plan.zero'])
  deepEqual(refusal({ pp: 2, schedule: 'zb-h1', microbatches: 2, recompute: 'cheap' }, 'megatron'), [
    'plan.schedule',
    'plan.recompute',
  ])
  deepEqual(refusal({ dp: 2, zero: 1 }, 'torchtitan'), ['plan.zero'])
  deepEqual(refusal({ pp: 2, microbatches: 2 }, 'accelerate'), ['plan.pp'])
  deepEqual(refusal({ dp: 2, zero: 3 }, 'nanotron'), ['plan.zero'])
  ok(refusal({ dp: 2, zero: 1, precision: 'bf16' }, 'picotron').includes('plan.precision'))
})

test('DeepSpeed is told everything, clipping that is off included', () => {
  const job = Job.parse({
    model: llama,
    training: { seq: 128, globalBatch: 16 },
    plan: { dp: 4, zero: 2, microbatches: 2, precision: 'bf16' },
  })
  const config = JSON.parse(exportJob(job, 'deepspeed').files.get('ds_config.json')!)
  deepEqual(
    [
      config.train_batch_size,
      config.train_micro_batch_size_per_gpu,
      config.gradient_accumulation_steps,
      config.gradient_clipping,
    ],
    [16, 2, 2, 0],
  )
  match(JSON.stringify(config), /"data_types":\{"grad_accum_dtype":"fp32"\}/)
})

test('Megatron finds the variable of CUDA that it asks for, and that its FSDP refuses', () => {
  const script = (zero: 1 | 3) =>
    exportJob(
      Job.parse({
        model: llama,
        training: { seq: 128, globalBatch: 4 },
        plan: { dp: 2, tp: 2, zero, precision: 'bf16' },
      }),
      'megatron',
    ).files.get('megatron.sh')!
  match(script(1), /^export CUDA_DEVICE_MAX_CONNECTIONS=1$/m)
  ok(!script(3).includes('CUDA_DEVICE_MAX_CONNECTIONS'))
})

test('picotron is told a file of the model that is not its own', () => {
  const job = Job.parse({
    model: llama,
    training: {
      seq: 128,
      globalBatch: 4,
      lrSchedule: { kind: 'constant' },
      optimizer: { kind: 'adamw', lr: 1e-3, beta2: 0.999, weightDecay: 0.01 },
    },
    plan: { dp: 2, precision: 'f32' },
  })
  const { files, refused } = exportJob(job, 'picotron')
  deepEqual(refused, [])
  const [[own, config], ...others] = [...files]
  const { name } = JSON.parse(config).model
  notEqual(name, own)
  deepEqual(
    others.map(([file]) => file),
    [name],
  )
  equal(JSON.parse(files.get(name)!).hidden_size, llama.embed)
})

test('a setting of the model that a file cannot say is named by its own path', () => {
  const mla = { kvLoraRank: 16, qkRopeHeadDim: 8, qkNopeHeadDim: 16, vHeadDim: 16, eps: 1e-3 }
  const job = Job.parse({
    model: { ...llama, mla },
    training: { seq: 128, globalBatch: 8 },
    plan: { precision: 'bf16' },
  })
  const { unsaid } = exportJob(job, 'megatron')
  deepEqual(
    unsaid.filter(({ path }) => path.startsWith('model')),
    [{ path: 'model.mla.eps', said: true, message: '0.00001 in the file, 0.001 in the job' }],
  )
})

const recipe = ['training.optimizer', 'training.lrSchedule', 'training.clip', 'training.steps', 'training.seed']

for (const to of ['megatron', 'deepspeed', 'accelerate', 'torchtitan', 'nanotron', 'picotron'] as const)
  test(`${to}: a recipe that the job leaves out is left out of the files and named; what it states is there`, async () => {
    const plan = to === 'picotron' ? 'precision: f32' : 'precision: bf16'
    const jobText = (more: string) =>
      `model: ${JSON.stringify(llama)}\ntraining: { seq: 128, globalBatch: 8${more} }\nplan: { dp: 2, ${plan} }\n`
    const run = (text: string) => lockstep(['export', 'job.yaml', '--to', to, '--out', 'out'], { 'job.yaml': text })
    const bare = await run(jobText(''))
    equal(bare.code, 0, bare.err)
    const text = Object.entries(bare.written)
      .filter(([name]) => name.startsWith('out/'))
      .map(([, file]) => file)
      .join('\n')
    doesNotMatch(text, /0\.001\b|\b1e-3|train-iters|max_steps|train_steps|clip|max_grad_norm|max_norm|weight.decay/)
    for (const path of recipe) match(bare.out, new RegExp(`^  ${path}\\b`, 'm'))
    doesNotMatch(bare.out, /: all of the job/)
    const clip = to === 'picotron' ? '' : ', clip: 0.7'
    const stated = await run(
      jobText(
        `, steps: 321, seed: 5, optimizer: { kind: adamw, lr: 0.00123, beta2: 0.999, weightDecay: 0.01 }, lrSchedule: { kind: constant }${clip}`,
      ),
    )
    equal(stated.code, 0, stated.err)
    const full = Object.entries(stated.written)
      .filter(([name]) => name.startsWith('out/'))
      .map(([, file]) => file)
      .join('\n')
    match(full, /0\.00123/)
    if (clip) match(full, /0\.7\b/)
    if (clip) doesNotMatch(stated.out, /add your own/)
  })

test('what no job can set is named where a file states it', async () => {
  const files = { 'job.yaml': `model: ${JSON.stringify(llama)}\ntraining: { seq: 128, globalBatch: 8 }\n` }
  const { out } = await lockstep(['export', 'job.yaml', '--to', 'megatron', '--out', 'out'], files)
  match(out, /^set by default:\n {2}--init-method-std 0\.02: /m)
})
