import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import type { Problem } from '../src/base/index.js'
import { ModelConfig, presets } from '../src/model/index.js'
import {
  check,
  Job,
  type JobInput,
  layersPerStage,
  Plan,
  type PlanInput,
  parseJob,
  scheduleNames,
  worldOfPlan,
} from '../src/plan/index.js'
import { lockstep, memoryIo } from './memory-io.js'

const good = `
model:    { family: llama, layers: 8, embed: 256, heads: 8, kvHeads: 4, ffn: 688, vocab: 512 }
training: { seq: 128, globalBatch: 16, optimizer: { kind: adamw, lr: 3e-4, weightDecay: 0.1 }, clip: 1.0 }
plan:     { dp: 2, tp: 2, pp: 2, zero: 3, sequenceParallel: true, microbatches: 4, schedule: 1f1b, recompute: selective }
`

test('a job file is read, with every default resolved', () => {
  const { job, problems } = parseJob(good)
  deepEqual(problems, [])
  deepEqual(job, {
    model: {
      family: 'llama',
      layers: 8,
      embed: 256,
      heads: 8,
      kvHeads: 4,
      headDim: 32,
      ffn: 688,
      vocab: 512,
      ropeTheta: 10000,
      eps: 1e-5,
      tied: false,
      qkvBias: false,
      qkNorm: false,
    },
    training: {
      seq: 128,
      globalBatch: 16,
      clip: 1,
      seed: 1,
      steps: 100,
      lrSchedule: { kind: 'constant', warmup: 0, minLr: 0 },
      evalEvery: 0,
      evalBatches: 4,
      optimizer: { kind: 'adamw', lr: 3e-4, weightDecay: 0.1, beta1: 0.9, beta2: 0.95, eps: 1e-8 },
    },
    plan: {
      dp: 2,
      tp: 2,
      pp: 2,
      cp: 1,
      ep: 1,
      zero: 3,
      sequenceParallel: true,
      microbatches: 4,
      schedule: '1f1b',
      chunks: 1,
      recompute: 'selective',
      layers: 'even',
      gather: 'use',
      attention: 'gather',
      etp: 1,
      expertCapacity: 2,
      reduce: 'microbatch',
      precision: 'f32',
      rounding: 'nearest',
      overlap: true,
      bucket: 25 * 2 ** 20,
      prefetch: 1,
      rankOrder: 'tp-cp-ep-dp-pp',
    },
  })
  equal(worldOfPlan(job!.plan), 8)
})

test('JSON, comments, anchors, a byte-order mark and Windows line ends are read alike', () => {
  const { job } = parseJob(good)
  deepEqual(parseJob(JSON.stringify(job)).job, job)
  deepEqual(parseJob(JSON.stringify(job, null, '\t')).job, job)
  deepEqual(parseJob(`\uFEFF# a comment${good.replaceAll('\n', '\r\n')}`).job, job)
  deepEqual(parseJob(good.replace('dp: 2, tp: 2', 'dp: &two 2, tp: *two')).job, job)
})

test('the model is a preset, a preset with changes, or a file', () => {
  const rest = 'training: { seq: 64, globalBatch: 4 }'
  const model = (text: string) => parseJob(`model: ${text}\n${rest}`, { readModel: path => configs[path] }).job?.model
  const llama3 = ModelConfig.parse(presets['llama3-8b'])
  const configs: Record<string, string> = {
    './config.json':
      '{"model_type":"gpt2","n_embd":64,"n_layer":2,"n_head":4,"vocab_size":96,"resid_pdrop":0,"attn_pdrop":0,"embd_pdrop":0}',
  }
  deepEqual(model('llama3-8b'), llama3)
  deepEqual(model('{ preset: llama3-8b, layers: 4 }'), { ...llama3, layers: 4 })
  deepEqual(model('./config.json'), ModelConfig.parse({ family: 'gpt', layers: 2, embed: 64, heads: 4, vocab: 96 }))
})

test('what schedules hold per rank is resolved', () => {
  const chunks = Object.fromEntries(scheduleNames.map(schedule => [schedule, Plan.parse({ schedule }).chunks]))
  deepEqual(chunks, {
    gpipe: 1,
    '1f1b': 1,
    'looped-bfs': 2,
    interleaved: 2,
    'interleaved-zb': 2,
    'zb-h1': 1,
    'zb-h2': 1,
    'zb-v': 2,
    'v-half': 2,
    'v-min': 2,
    'dualpipe-v': 2,
    dualpipe: 1,
  })
  deepEqual(Plan.parse({ schedule: 'mine.csv' }).schedule, { file: 'mine.csv' })
  deepEqual(Plan.parse({ schedule: { file: 'mine.txt' }, chunks: 3 }).chunks, 3)
})

test('memory is bytes, or a text with a unit', () => {
  const bytes = (deviceMemory: string | number) => Plan.parse({ deviceMemory }).deviceMemory
  deepEqual(['80GiB', '80Gi', '1.5 TB', '512mb', '4096', 123].map(bytes), [
    80 * 2 ** 30,
    80 * 2 ** 30,
    1.5e12,
    512e6,
    4096,
    123,
  ])
})

test('layers are cut evenly, by a list, or with a lighter first and last stage', () => {
  const cut = (layers: number, plan: PlanInput) => layersPerStage(Plan.parse(plan), layers).join(' ')
  equal(cut(8, { pp: 4 }), '2 2 2 2')
  equal(cut(10, { pp: 4 }), '3 3 2 2')
  equal(cut(8, { pp: 2, schedule: 'interleaved' }), '2 2 2 2')
  equal(cut(8, { pp: 4, layers: [0, 4, 4, 0] }), '0 4 4 0')
  equal(cut(14, { pp: 4, layers: { first: 3, last: 3 } }), '3 4 4 3')
  equal(cut(15, { pp: 4, layers: { first: 3 } }), '3 4 4 4')
  equal(cut(15, { pp: 4, layers: { last: 0 } }), '5 5 5 0')
  equal(cut(8, { layers: { first: 8 } }), '8')
})

const tiny: JobInput = {
  model: { family: 'llama', layers: 8, embed: 64, heads: 8, kvHeads: 4, ffn: 96, vocab: 128 },
  training: { seq: 32, globalBatch: 64 },
}
const checked = (plan: PlanInput, model: object = {}) =>
  check(Job.parse({ ...tiny, model: { ...tiny.model, ...model }, plan }))
const show = (problems: readonly Problem[]) => problems.map(p => `${p.severity} ${p.path}`)

test('sound plans have no problems', () => {
  const sound: readonly PlanInput[] = [
    {},
    { dp: 4, tp: 8, pp: 2, microbatches: 4 },
    { tp: 4, sequenceParallel: true },
    { pp: 4, microbatches: 8, schedule: 'interleaved' },
    { pp: 4, microbatches: 8, schedule: 'dualpipe' },
    { pp: 4, microbatches: 8, schedule: 'dualpipe-v' },
    { pp: 4, microbatches: 4, layers: [1, 3, 3, 1] },
    { pp: 4, microbatches: 4, layers: { first: 0, last: 0 } },
    { dp: 4, zero: 3, microbatches: 16, gather: 'step', reduce: 'step' },
    { rankOrder: 'dp-tp-pp', dp: 2, tp: 2 },
    { dp: 2, deviceMemory: '1GiB' },
    { recompute: ['attention', 'swiglu'] },
  ]
  for (const plan of sound) deepEqual(checked(plan), [], JSON.stringify(plan))
})

test('every pair of sizes either compiles in whole numbers or is refused', () => {
  for (const kvHeads of [1, 2, 4, 8])
    for (let tp = 1; tp <= 16; tp++) {
      const ways = [...Array(tp + 1).keys()].slice(1).filter(n => tp % n === 0 && kvHeads % n === 0)
      const tp0 = Math.max(...ways)
      const whole = (8 / kvHeads) % (tp / tp0) === 0
      equal(
        checked({ tp }, { kvHeads, ffn: 720720, vocab: 720720 }).length === 0,
        whole,
        `kvHeads ${kvHeads}, tp ${tp}`,
      )
    }
})

test('unwise plans are warned of, with numbers', () => {
  const warns = (plan: PlanInput, path: string, fragment: RegExp) => {
    const problems = checked(plan)
    deepEqual(show(problems), [`warning ${path}`], JSON.stringify(problems))
    match(`${problems[0].message}; ${problems[0].suggestion}`, fragment)
  }
  warns(
    { pp: 4, microbatches: 2 },
    'plan.microbatches',
    /microbatches 2 < pp 4: .*about 60 % .*with microbatches 16 it would be 16 %/,
  )
  warns({ pp: 4, microbatches: 2, schedule: 'zb-h1' }, 'plan.microbatches', /about 33 %/)
  warns(
    { precision: 'pure-bf16' },
    'plan.precision',
    /below 1\/512 .* lr 0.001 changes no parameter above 0.512; try bf16, .*: 18 bytes per parameter instead of 8/,
  )
  warns({ pp: 3, microbatches: 4 }, 'plan.pp', /layers 8 = 3 \+ 3 \+ 2.*2 or 4 stages would be even/)
  warns({ zero: 1 }, 'plan.zero', /no effect with dp 1/)
  warns({ sequenceParallel: true }, 'plan.sequenceParallel', /no effect with tp 1/)
  warns({ dp: 2, zero: 1, gather: 'step' }, 'plan.gather', /below zero 3/)
  warns({ dp: 2, zero: 1, reduce: 'step' }, 'plan.reduce', /below zero 2/)
  warns(
    { dp: 2, zero: 3, microbatches: 8, reduce: 'step' },
    'plan.gather',
    /backward pass of 8 microbatches: .*MiB per rank.*`gather: step`/,
  )
  warns({ dp: 2, zero: 2, microbatches: 8 }, 'plan.reduce', /each of 8 microbatches: .*`reduce: step`/)
  warns(
    { pp: 2, microbatches: 4, schedule: 'zb-h1', recompute: 'full' },
    'plan.recompute',
    /saves little memory with zb-h1/,
  )
  warns(
    { pp: 2, tp: 2, microbatches: 4, schedule: 'zb-v', sequenceParallel: true },
    'plan.sequenceParallel',
    /6 all-gathers/,
  )
  warns({ recompute: ['gelu', 'rope'] }, 'plan.recompute', /this llama has no gelu/)
})

test('ops to recompute are looked for in every kind of layer, whatever widths are wrong', () => {
  const llama = { family: 'llama', layers: 4, embed: 8, heads: 4, ffn: 8, vocab: 8 } as const
  const pathsOf = (model: JobInput['model'], recompute: ('scores' | 'dispatch' | 'swiglu')[]) =>
    check(Job.parse({ model, training: { seq: 8, globalBatch: 8 }, plan: { recompute } })).map(({ path }) => path)
  const mla = { kvLoraRank: 5, qkRopeHeadDim: 2, qkNopeHeadDim: 3, vHeadDim: 4 }
  deepEqual(pathsOf({ ...llama, mla, headDim: 6 }, ['swiglu']), ['model.headDim'])
  deepEqual(pathsOf({ ...llama, experts: 4, topK: 2, moe: { dense: 1 } }, ['dispatch', 'swiglu']), [])
  deepEqual(pathsOf({ ...llama, experts: 4, topK: 2, moe: { every: 2 } }, ['dispatch', 'swiglu']), [])
  deepEqual(pathsOf(llama, ['scores']), ['plan.recompute'])
})

test('check prints what a job amounts to', async () => {
  const { code, out } = await lockstep(['check', 'job.yaml'], { 'job.yaml': good })
  equal(code, 0)
  match(out, /^llama, 6\.07 M parameters, 8 ranks = tp 2 x pp 2 x dp 2; 2\s+stages of 4 layers/)
  const json = JSON.parse((await lockstep(['check', 'job.yaml', '--json'], { 'job.yaml': good })).out)
  equal(json.ok, true)
  deepEqual(json.summary.layersPerStage, [4, 4])
  equal(json.summary.tokensPerStep, 2048)
})

test('a model file is looked for beside the job', async () => {
  const files = {
    'jobs/a.yaml': 'model: models/config.json\ntraining: { seq: 64, globalBatch: 4 }',
    'jobs/models/config.json': '{"model_type":"bert"}',
  }
  const { code, out } = await lockstep(['check', 'jobs/a.yaml'], files)
  equal(code, 1)
  match(out, /^jobs\/a\.yaml:1:8: error: model: models\/config\.json: model_type: `bert` is not supported/)
})

test('a usage error is 2, a missing file is 1, help is 0 and has an example', async () => {
  const code = async (...argv: string[]) => (await lockstep(argv)).code
  equal(await code(), 2)
  equal(await code('chekc', 'a'), 2)
  equal(await code('check'), 2)
  equal(await code('check', 'a', 'b'), 2)
  equal(await code('check', 'a', '--jsno'), 2)
  equal(await code('__proto__'), 2)
  equal(await code('check', 'a'), 1)
  equal(await code('--version'), 0)
  match((await lockstep(['chekc'])).err, /unknown command `chekc`; did you mean `check`\?/)
  for (const command of ['check', 'groups']) {
    const { code, out } = await lockstep([command, '--help'])
    equal(code, 0)
    match(out, /Example:\n {2}lockstep /)
    match(out, /--json/)
  }
  ok((await lockstep(['--help'])).out.includes('groups'))
})

test('what nobody expected is one line, with advice', async () => {
  const { run } = await import('../src/cli/main.js')
  const errs: string[] = []
  const broken = {
    ...memoryIo({}).io,
    out: () => {
      throw new TypeError('x is undefined\n    at y')
    },
    err: (t: string) => errs.push(t),
    read: () => good,
  }
  equal(await run(['check', 'job.yaml'], broken), 1)
  deepEqual(errs, [
    'internal: TypeError: x is undefined; this is a bug in lockstep, please report it with the command and its input (--verbose prints the stack)\n',
  ])
  equal(await run(['check', 'job.yaml'], { ...broken, env: { LOCKSTEP_DEBUG: '1' } }), 1)
  ok(errs.at(-1)?.includes('    at '))
})
