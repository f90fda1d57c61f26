import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { choices, finish } from '../src/base/index.js'
import { compileJob, compilingJob, differencesOf, serialJob, tallyOf } from '../src/compile/index.js'
import { type Program, verify, verifying } from '../src/ir/index.js'
import { presets } from '../src/model/index.js'
import {
  check,
  Job,
  type JobInput,
  rehearsalOf,
  rehearsalSizes,
  scheduleFacts,
  scheduleNames,
  shrink,
  worldOfPlan,
} from '../src/plan/index.js'
import { makeSchedule, printSchedule, scheduleProblems } from '../src/schedule/index.js'
import { later, test } from './families.js'
import { lockstep } from './memory-io.js'

const llama405 = `
name: llama3-405b
model: llama3-405b
training: { seq: 8192, globalBatch: 4096 }
plan: { tp: 8, pp: 4, dp: 512, zero: 1, schedule: interleaved, microbatches: 8 }
`

later('16,384 ranks are scaled down to 16: the same program, and equal to one rank', async () => {
  const { code, out } = await lockstep(['dry-run', 'job.yaml', '--steps', '1'], { 'job.yaml': llama405 })
  equal(code, 0, out)
  match(out, /^llama3-405b: 16384 ranks scaled down to 16\n/)
  match(out, /plan\.dp +512 +2 +replicas are identical/)
  match(out, /layers\.F +all-reduce tp x2 +1008 +64\n/)
  match(out, /identical program structure: (\d+)\/\1 functions match\nstatic checks passed/)
  match(out, /numeric check passed: 16 ranks match the single-rank reference/)
})

later('a plan in bf16 is rehearsed in bf16', async () => {
  const text = llama405.replace('zero: 1', 'zero: 1, precision: bf16')
  const { code, out } = await lockstep(['dry-run', 'job.yaml', '--steps', '1'], { 'job.yaml': text })
  equal(code, 0, out)
  match(out, /kernels in bf16: losses differ from a single rank's by/)
  match(out, /identical program structure: (\d+)\/\1 functions match[\s\S]*numeric check passed: 16 ranks match/)
})

later('what makes tp two factors, a short pipeline and a file of a schedule are kept', async () => {
  const text = `
model: llama2-70b
training: { seq: 4096, globalBatch: 512 }
plan: { dp: 8, tp: 16, pp: 2, zero: 3, sequenceParallel: true, recompute: full, microbatches: 4, schedule: mine.csv }
`
  const csv = printSchedule(makeSchedule('zb-h1', { ranks: 2, chunks: 1, microbatches: 4 }))
  const files = { 'job.yaml': text, 'mine.csv': csv }
  const { code, out } = await lockstep(['dry-run', 'job.yaml', '--steps', '1', '--json'], files)
  const { ok: fine, job, differences, ranks, verdict } = JSON.parse(out)
  equal(code, 0)
  deepEqual([fine, ranks, differences, verdict.violations], [true, 16, [], []])
  deepEqual([job.plan.tp, job.model.kvHeads, job.model.heads / job.model.kvHeads], [4, 2, 4])
  deepEqual([job.plan.pp, job.plan.microbatches, job.plan.zero], [2, 4, 3])
})

test('a job with problems is not rehearsed', async () => {
  const { code, err } = await lockstep(['dry-run', 'job.yaml'], { 'job.yaml': llama405.replace('tp: 8', 'tp: 7') })
  equal(code, 1)
  match(err, /plan\.tp/)
})

const llama = { family: 'llama', layers: 32, embed: 4096, heads: 32, ffn: 14336, vocab: 32256 } as const
const capacity = { factor: 1.25, group: 256 }
const routedModels = {
  mixtral: {
    ...llama,
    kvHeads: 8,
    window: 300,
    moe: { experts: 8, topK: 2, ffn: 14336, loss: { microbatch: 0.01 } },
  },
  switch: { ...llama, kvHeads: 2, moe: { experts: 12, topK: 1, ffn: 1536, shared: 1025, every: 2, capacity } },
  deepseek: {
    ...{ ...llama, mla: { qLoraRank: 512, kvLoraRank: 512, qkRopeHeadDim: 64, qkNopeHeadDim: 128, vHeadDim: 128 } },
    moe: {
      experts: 64,
      topK: 8,
      ffn: 2048,
      scores: 'sigmoid',
      groups: 8,
      topKGroups: 4,
      bias: 0.001,
      dense: 3,
      shared: 2048,
    },
  },
} as const

const models = {
  'gpt, tied': { family: 'gpt', layers: 96, embed: 12288, heads: 96, vocab: 51200 },
  'llama3-405b': { family: 'llama', layers: 126, embed: 16384, heads: 128, kvHeads: 8, ffn: 53248, vocab: 128256 },
  'few key-value heads': { family: 'llama', layers: 64, embed: 4096, heads: 32, kvHeads: 2, ffn: 8192, vocab: 32000 },
  mlp: { family: 'mlp', layers: 64, embed: 4096 },
  ...routedModels,
} as const satisfies Record<string, JobInput['model']>

/** How the sequences of routed models are cut. */
const sequences = [
  {},
  { cp: 2 },
  { cp: 4, attention: 'ring' },
  { cp: 4, attention: 'ring', zigzag: false },
  { cp: 4, attention: { ulysses: 2, ring: 2 } },
] as const

const seed = Number(process.env.SEED ?? 3)
const { pick } = choices(seed)

/** Draws until the counts fit the schedule. */
function drawn(from: object = models): { title: string; job: Job } {
  const name = pick(Object.keys(from) as (keyof typeof models)[])
  const schedule = pick(scheduleNames)
  const plan = {
    ...{ schedule, dp: pick([1, 7, 64]), tp: pick([1, 2, 8]), pp: pick([1, 4, 16]), zero: pick([0, 1, 2, 3]) },
    ...{
      microbatches: pick([8, 32, 40]),
      sequenceParallel: pick([true, false]),
      recompute: pick(['none', 'full'] as const),
    },
    ...{ layers: pick(['even', { first: 1, last: 0 }] as const) },
    ...(name in routedModels && {
      ...pick(sequences),
      dp: pick([4, 12]),
      ep: pick([1, 2, 3, 4, 8, 16]),
      etp: pick([1, 2]),
    }),
  }
  const counts = { ranks: plan.pp, chunks: scheduleFacts[schedule].chunks, microbatches: plan.microbatches }
  const job = Job.safeParse({ model: models[name], training: { seq: 2048, globalBatch: 64 * 7 * 160 }, plan })
  const fits = job.success && scheduleProblems(schedule, counts).length === 0
  const sound = fits && check(job.data).every(({ severity }) => severity === 'warning')
  return sound ? { title: `${name}: ${JSON.stringify(plan)}`, job: job.data } : drawn(from)
}

test(`what is made small is a sound job, experts and all (SEED=${seed})`, () => {
  for (let i = 0; i < 40; i++) {
    const { title, job } = drawn()
    for (const { job: small } of [shrink(job), ...rehearsalSizes.map(sizes => rehearsalOf(job, sizes))]) {
      const wrong = check(small).filter(({ severity }) => severity === 'error')
      deepEqual(wrong, [], title)
      ok(('moe' in small.model ? small.model.moe?.experts : 0) === 0 || small.plan.expertCapacity === 'worst')
    }
  }
})

const published = {
  'DeepSeek-V3 on 2,048 devices': {
    model: presets['deepseek-v3'],
    training: { seq: 4096, globalBatch: 15360 },
    plan: { pp: 16, dp: 128, ep: 64, zero: 1, schedule: 'dualpipe-v', chunks: 2, microbatches: 120, precision: 'bf16' },
  },
  'Llama 3 405B on 16,384 devices': {
    model: presets['llama3-405b'],
    training: { seq: 8192, globalBatch: 2048 },
    plan: {
      ...{ tp: 8, sequenceParallel: true, pp: 16, dp: 128, zero: 1, precision: 'bf16', microbatches: 16 },
      ...{ schedule: 'interleaved', chunks: 8, layers: { first: 0, last: 0 } },
    },
  },
} as const satisfies Record<string, JobInput>

for (const [title, input] of Object.entries(published)) {
  const job = Job.parse(input)
  const { job: small, changes } = shrink(job)

  test(`${title}: little is left to run, and all that changed is said`, () => {
    const { model, plan } = small
    ok('heads' in model && 'kvHeads' in model)
    ok(worldOfPlan(plan) <= 64 && model.embed <= 16 && model.heads <= 4, JSON.stringify(changes))
    const layers = ('moe' in model && model.moe ? 2 : 1) * model.layers
    ok(plan.dp * plan.tp * plan.microbatches * (layers + plan.pp * plan.chunks) <= 16_384)
    // Two heads a rank, two ranks of what ranks split, every stage.
    ok(model.heads / plan.tp >= 2)
    for (const axis of ['tp', 'dp', 'ep'] as const) equal(plan[axis] > 1, job.plan[axis] > 1, axis)
    deepEqual([plan.pp, plan.chunks, plan.schedule], [job.plan.pp, job.plan.chunks, job.plan.schedule])
    ok(plan.microbatches >= Math.min(2 * plan.pp, job.plan.microbatches))
    const said = new Set(changes.map(({ path }) => path))
    for (const key of ['tp', 'dp', 'ep', 'microbatches', 'layers'] as const)
      equal(said.has(`plan.${key}`), JSON.stringify(plan[key]) !== JSON.stringify(job.plan[key]), key)
    for (const key of ['layers', 'embed', 'heads', 'ffn'] as const)
      equal(said.has(`model.${key}`), model[key] !== (job.model as typeof model)[key], key)
  })

  later(`${title}: what is left is the same program`, () => {
    deepEqual(differencesOf(tallyOf(compileJob(job)), tallyOf(compileJob(small))), [])
  })
}

test('what need not be left out to make a job small is kept: layers, then microbatches, then ranks', () => {
  const of = (plan: JobInput['plan']) => {
    const { model, plan: small } = shrink(
      Job.parse({ model: presets['llama3-405b'], training: { seq: 8192, globalBatch: 4096 }, plan }),
    ).job
    return [model.layers, small.microbatches, small.tp]
  }
  deepEqual(of({ tp: 8, dp: 4, microbatches: 4 }), [126, 4, 8])
  deepEqual(of({ tp: 8, pp: 4, dp: 4, microbatches: 32 }), [4, 32, 8])
  deepEqual(of({ tp: 8, pp: 16, dp: 4, microbatches: 512 }), [16, 32, 8])
  deepEqual(of({ tp: 8, pp: 42, dp: 4, microbatches: 512 }), [42, 86, 2])
})

/** Thousands of steps, none of which waits for another stream. */
const manyMicrobatches = Job.parse({
  model: presets['llama-tiny'],
  training: { seq: 4, globalBatch: 256 },
  plan: { dp: 2, microbatches: 128 },
})

test('the laws of a long program are checked with pauses all along, in which Ctrl-C is heard', () => {
  const program = compileJob(manyMicrobatches)
  const serial = compileJob(serialJob(manyMicrobatches, 128))
  const shares: number[] = []
  for (const work = verifying(program, serial); ; ) {
    const { done, value } = work.next()
    if (done) {
      deepEqual(value, [])
      break
    }
    shares.push(value)
  }
  deepEqual(
    shares,
    shares.toSorted((a, b) => a - b),
  )
  const steps = [program, serial]
    .flatMap(({ streams }) => streams)
    .reduce((sum, stream) => sum + stream.steps.length, 0)
  ok(steps > 3 * 4096 && shares.filter(share => share > 0.3).length >= steps / 4096, `${shares.length} for ${steps}`)
})

test('a one-rank program that is only read is the same one, whose frames lie one behind the other', () => {
  const serial = serialJob(manyMicrobatches, 128)
  const [packed, read] = [compileJob(serial), finish(compilingJob(serial, undefined, { placing: 'none' }))]
  const unplaced = ({ streams, ...rest }: Program) => ({
    ...rest,
    streams: streams.map(({ arena: _, frames, ...stream }) => ({
      ...stream,
      frames: frames.map(({ offset: _, ...frame }) => frame),
    })),
  })
  deepEqual(unplaced(read), unplaced(packed))
  deepEqual(verify(read), [])
  const [ends] = read.streams.map(({ frames }) =>
    frames.reduce((sum, { bytes }) => sum + Math.ceil(bytes / 64) * 64, 0),
  )
  equal(read.streams[0].arena, ends)
  ok(read.streams[0].arena > packed.streams[0].arena)
})

later('experts on all of eight ranks are rehearsed on four, and proved narrower', async () => {
  const model =
    '{ family: llama, layers: 4, embed: 512, heads: 8, ffn: 1536, vocab: 512, moe: { experts: 16, topK: 2, ffn: 512, dense: 3 } }'
  const text = `model: ${model}\ntraining: { seq: 512, globalBatch: 16 }\nplan: { dp: 4, cp: 2, ep: 8, zero: 1 }\n`
  const { code, out } = await lockstep(['dry-run', 'job.yaml', '--steps', '1'], { 'job.yaml': text })
  equal(code, 0, out)
  match(
    out,
    /8 ranks scaled down to 4\n[\s\S]*plan\.ep +8 +4 +each axis[\s\S]*identical program structure[\s\S]*numeric check passed: 4 ranks match/,
  )
  const proof = await lockstep(['verify', 'job.yaml', '--steps', '1'], { 'job.yaml': text })
  equal(proof.code, 0, proof.out)
  match(proof.out, /model\.moe\.experts 16 -> 8,[\s\S]*plan\.ep 8 -> 4,[\s\S]*numeric check passed: 4 ranks match/)
})

for (let i = 0; i < Number(process.env.GRID ?? 3); i++) {
  const { title, job } = drawn(i % 3 === 2 ? routedModels : models)
  later(`a small size of it is the same program: ${title} (SEED=${seed} #${i})`, () => {
    const full = tallyOf(compileJob(job))
    const sizes = rehearsalSizes.find(sizes => {
      const { job: small } = rehearsalOf(job, sizes)
      deepEqual(
        check(small).filter(({ severity }) => severity === 'error'),
        [],
      )
      ok(worldOfPlan(small.plan) <= 64 && small.model.layers <= 34)
      return differencesOf(full, tallyOf(compileJob(small))).length === 0
    })
    ok(sizes, 'no size gives the same program')
  })
}
