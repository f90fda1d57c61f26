/**
 * Offload: what lives elsewhere than on the device changes no bit. Programs are lawful and compute what one rank computes; in
 * interpreter and engine all numbers are those of the same plan without it; peaks of every space are the planned ones; and a
 * program that mixes up its spaces breaks a law that says so.
 */
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { after } from 'node:test'
import { elementsOf, heldElements, mapStates } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import { dataFor, interpreterOf, type Runner } from '../src/engine/index.js'
import { type LoweredProgram, nativeMissing, opcodes, Pool, startEngine } from '../src/engine/native/index.js'
import { bytesPer, kinds, type Program, parse, print, roomIn, spaceOf, traitsOf, verify } from '../src/ir/index.js'
import { type Job, type JobInput, Offload } from '../src/plan/index.js'
import { family, test } from './families.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, optionsOf, titleOf } from './jobs.js'
import type { Kind } from './recorded.js'

type Plan = NonNullable<JobInput['plan']>
type Training = Partial<JobInput['training']>
type Asked = NonNullable<NonNullable<JobInput['plan']>['offload']>

const pool = new Pool()
after(() => pool.close())

const host = { optimizer: 'host' } as const

/** Plans that cut parameters, gradients and states in every way, with what else an update may meet. */
const cases: readonly (readonly [ModelName, Plan, Training?])[] = [
  ['gpt', {}],
  ['llama', { precision: 'bf16', microbatches: 2 }],
  [
    'gpt tied',
    { pp: 2, microbatches: 2, schedule: 'zb-h1' },
    { optimizer: { kind: 'lion', lr: 1e-3, weightDecay: 0.1 } },
  ],
  ['gpt', { dp: 3, zero: 1 }, { globalBatch: 12 }],
  ['llama', { dp: 2, tp: 2, zero: 1, precision: 'bf16' }, { lossScale: 1024 }],
  ['gpt tied', { dp: 2, zero: 2, precision: 'pure-bf16', microbatches: 2 }],
  [
    'llama tied',
    { dp: 3, zero: 3, precision: 'bf16' },
    { globalBatch: 12, optimizer: { kind: 'adamw', lr: 1e-3, amsgrad: true } },
  ],
  ['mlp', { dp: 2, zero: 3, gather: 'step' }, { optimizer: { kind: 'sgd', lr: 0.05, momentum: 0.9, nesterov: true } }],
  ['llama', { cp: 2, tp: 2, dp: 2, zero: 1, sequenceParallel: true }],
  ['gpt', { dp: 2, zero: 2, precision: 'bf16', gradients: 'bf16', compress: { reduce: 'bf16' } }],
  ['llama', { dp: 2, zero: 3, precision: 'pure-bf16', gradients: 'f32', compress: { gather: 'bf16' } }],
  ['gpt', { dp: 2, zero: 1, precision: 'pure-bf16', rounding: 'stochastic' }],
  ['llama', { dp: 2, zero: 1, precision: 'bf16' }, { ema: { decay: 0.9 }, optimizer: { kind: 'lion', lr: 1e-3 } }],
  ['gpt', { dp: 3, zero: 1 }, { globalBatch: 12, optimizer: { kind: 'lamb', lr: 1e-3 } }],
  ['llama', { tp: 2, dp: 2, zero: 3, precision: 'bf16' }, { optimizer: { kind: 'muon', lr: 1e-3 } }],
  ['gpt tied', { pp: 2, microbatches: 2 }, { optimizer: { kind: 'muon', lr: 1e-3 }, ema: { decay: 0.9 } }],
  ['llama', { dp: 2, zero: 2, precision: 'pure-bf16' }, { optimizer: { kind: 'adafactor', lr: 1e-3 } }],
]

const away = (job: Job, asked: Asked = host): Job => ({ ...job, plan: { ...job.plan, offload: Offload.parse(asked) } })

const everything = (program: Program, runner: Runner) =>
  program.params.map(({ name }) => [name, runner.parameter(name), mapStates(runner.states(name), values => values)])

async function run(runner: Runner, program: Program, job: Job) {
  const data = dataFor(program, optionsOf(job))
  const results = []
  for (const step of [0, 1, 2]) results.push(await runner.step({ inputs: data(step), lr: 1e-2, step }))
  return results.map(({ loss, normSquared, taken }) => ({ loss, normSquared, taken }))
}

/** The same numbers after three steps, and the planned peaks in every space. */
async function changesNothing(
  job: Job,
  start: (program: Program) => Promise<Runner>,
  asked: Asked = host,
): Promise<void> {
  const [without, program] = [compileJob(job), compileJob(away(job, asked))]
  const [one, other] = [await start(without), await start(program)]
  try {
    deepEqual(await run(other, program, job), await run(one, without, job))
    deepEqual(everything(program, other), everything(without, one))
    for (const [rank, peak] of other.peaks.entries()) {
      const stream = program.streams[Math.floor(rank / (other.peaks.length / program.streams.length))]
      deepEqual(peak, stream.peak)
      deepEqual(other.peaksElsewhere[rank].host, roomIn(stream, 'host').peak)
      deepEqual(other.peaksElsewhere[rank].disk, roomIn(stream, 'disk').peak)
    }
  } finally {
    await one.stop()
    await other.stop()
  }
}

const interpreted = async (program: Program) => interpreterOf(program, { seed: 1, precision: 'f32' })
const byEngine = (kernels: Kind) => (program: Program) =>
  startEngine(program, { seed: 1, kernels, pool, poison: true, timeoutMs: 20_000, copiers: true })

/** What a copier's list becomes before the first step. */
const copying =
  (word: number) =>
  ({ copiers }: LoweredProgram, memory: SharedArrayBuffer): void => {
    for (const { at, list } of copiers) new Float64Array(memory, at, list.words.length)[list.starts[1]] = word
  }

test('a rank does by itself what its copier does not come to', async () => {
  const job = jobOf('gpt', { dp: 2, zero: 1, recompute: 'full' })
  const asked = { ...host, activations: 'layer-inputs' } as const
  const options = { seed: 1, pool, poison: true, timeoutMs: 20_000 }
  for (const more of [{ copiers: true, tamper: copying(opcodes.end) }, { copiers: false }])
    await changesNothing(job, program => startEngine(program, { ...options, ...more }), asked)
})

test('a copier that fails ends the step, and is named', async () => {
  const job = away(jobOf('gpt', { dp: 2 }))
  const program = compileJob(job)
  const options = { seed: 1, pool, copiers: true, timeoutMs: 20_000 }
  const engine = await startEngine(program, { ...options, tamper: copying(999) })
  await rejects(run(engine, program, job), /the copy thread of rank [01] failed: a command that no kernel implements/)
  await engine.stop()
})

const [tested, interpretedOnce] = [family('offload: optimizer state', 32), family('offload: interpreted', 24)]
for (const [model, plan, training] of cases) {
  const job = jobOf(model, plan, { clip: 0.5, ...training })
  const title = `${model}, ${titleOf(plan)}`
  tested(`${title}: lawful with its optimizer on the host, and what one rank computes`, () => {
    computesWhatOneRankComputes(away(job))
  })
  interpretedOnce(`${title}: the interpreter computes the same bits`, () => changesNothing(job, interpreted))
  interpretedOnce(`${title}, states on the disk: lawful, what one rank computes, and the same bits`, async () => {
    computesWhatOneRankComputes(away(job, { optimizer: 'disk' }))
    await changesNothing(job, interpreted, { optimizer: 'disk' })
  })
  for (const kernels of ['native', 'wasm'] as const)
    tested(
      `${title}: ${kernels} computes the same bits`,
      { skip: (kernels === 'native' && nativeMissing()) || false },
      async () => {
        await changesNothing(job, byEngine(kernels))
        await changesNothing(job, byEngine(kernels), { optimizer: 'disk' })
      },
    )
}

/** Every order in which backward follows forward, with what is computed again and what is not. */
const boundaries: readonly (readonly [ModelName, Plan, Asked?])[] = [
  ['gpt', { recompute: 'full', microbatches: 2 }],
  ['llama', { tp: 2, sequenceParallel: true, recompute: 'full', precision: 'bf16' }, host],
  ['gpt tied', { pp: 2, microbatches: 4, recompute: 'full' }],
  ['llama', { pp: 2, dp: 2, zero: 3, microbatches: 4, schedule: 'zb-h1', recompute: 'full' }, host],
  ['llama tied', { pp: 2, microbatches: 4, schedule: 'interleaved', recompute: 'selective' }],
  ['gpt', { pp: 2, microbatches: 4, schedule: 'looped-bfs' }],
  ['mlp', { pp: 2, microbatches: 4, schedule: 'dualpipe-v', recompute: 'full' }],
  ['llama', { cp: 2, attention: 'ring', recompute: 'full' }],
  ['llama', { pp: 2, dp: 2, zero: 1, microbatches: 4, recompute: 'full', precision: 'bf16' }, { layerInputs: 'disk' }],
  ['gpt tied', { recompute: 'full', microbatches: 2 }, { layerInputs: 'disk', optimizer: 'disk' }],
]

for (const [model, plan, more = {}] of boundaries) {
  const job = jobOf(model, plan)
  const asked = { ...more, activations: 'layer-inputs' } as const
  const title = `${model}, ${titleOf(plan)}, carries on the ${more.layerInputs ?? 'host'}`
  tested(`${title}: lawful, and what one rank computes`, () => {
    computesWhatOneRankComputes(away(job, asked))
  })
  interpretedOnce(`${title}: the interpreter computes the same bits`, () => changesNothing(job, interpreted, asked))
  tested(`${title}: native computes the same bits`, { skip: nativeMissing() || false }, () =>
    changesNothing(job, byEngine('native'), asked),
  )
}

/** Parameters elsewhere: gathered from there under every cut of them, for each call or once a step, alone and with everything else. */
const parameters: readonly (readonly [ModelName, Plan, Training?, Asked?])[] = [
  ['gpt', { dp: 2, zero: 3 }],
  ['llama', { zero: 3, microbatches: 2, precision: 'bf16' }],
  ['llama tied', { dp: 3, zero: 3, precision: 'bf16' }, { globalBatch: 12 }, host],
  ['gpt tied', { pp: 2, dp: 2, zero: 3, microbatches: 4, schedule: 'zb-h1' }, {}, host],
  ['mlp', { dp: 2, zero: 3, gather: 'step', overlap: false }, {}, host],
  ['llama', { dp: 2, tp: 2, zero: 3, precision: 'pure-bf16', compress: { gather: 'int8' } }, {}, host],
  [
    'llama',
    { dp: 2, zero: 3, precision: 'f16', recompute: 'full' },
    { lossScale: 1024 },
    { activations: 'layer-inputs' },
  ],
  ['gpt', { dp: 2, zero: 3, prefetch: 2, reduce: 'step', compress: { gather: 'bf16' } }, { ema: { decay: 0.9 } }, host],
  ['llama', { dp: 2, zero: 3 }, { optimizer: { kind: 'muon', lr: 1e-3 } }],
  ['llama', { dp: 2, zero: 3 }, { optimizer: { kind: 'adafactor', lr: 1e-3 } }, host],
  ['gpt', { dp: 2, zero: 3, precision: 'bf16' }, {}, { parameters: 'disk' }],
  ['llama', { dp: 3, zero: 3 }, { globalBatch: 12 }, { parameters: 'disk', optimizer: 'host' }],
  ['gpt tied', { zero: 3, microbatches: 2, gather: 'step' }, {}, { parameters: 'disk', optimizer: 'disk' }],
  [
    'llama',
    { pp: 2, dp: 2, zero: 3, microbatches: 4, precision: 'pure-bf16', recompute: 'full', compress: { gather: 'int8' } },
    { optimizer: { kind: 'lamb', lr: 1e-3 } },
    { parameters: 'disk', optimizer: 'disk', activations: 'layer-inputs', layerInputs: 'disk' },
  ],
]

for (const [model, plan, training, more = {}] of parameters) {
  const job = jobOf(model, plan, { clip: 0.5, ...training })
  const asked = { parameters: 'host', ...more } as const
  const title = `${model}, ${titleOf(plan)}, parameters on the ${asked.parameters}`
  tested(`${title}: lawful, and what one rank computes`, () => {
    computesWhatOneRankComputes(away(job, asked))
  })
  interpretedOnce(`${title}: the interpreter computes the same bits`, () => changesNothing(job, interpreted, asked))
  for (const kernels of ['native', 'wasm'] as const)
    tested(
      `${title}: ${kernels} computes the same bits`,
      { skip: (kernels === 'native' && nativeMissing()) || false },
      () => changesNothing(job, byEngine(kernels), asked),
    )
}

test('of what layers hand to each other a device keeps a few, whatever their number', () => {
  const peakAt = (layers: number, asked?: Asked) => {
    const job = jobOf('llama', { recompute: 'full', ...(asked && { offload: asked }) })
    const [{ peak, elsewhere }] = compileJob({ ...job, model: { ...job.model, layers } }).streams
    return { device: peak.activations, host: elsewhere?.host?.peak.activations ?? 0 }
  }
  const asked = { activations: 'layer-inputs' } as const
  const [eight, sixteen] = [peakAt(8, asked), peakAt(16, asked)]
  equal(sixteen.device, eight.device)
  ok(peakAt(16).device > peakAt(8).device)
  ok(sixteen.host > eight.host)
})

const small = jobOf('mlp', { dp: 2, zero: 1, offload: host, precision: 'bf16' }, { clip: 0.5 })

test('optimizer state is on the host, all of it, and nothing but it stays there', () => {
  const [{ peak, elsewhere, resident, frames }] = compileJob(small).streams
  const [{ peak: before }] = compileJob({ ...small, plan: { ...small.plan, offload: undefined } }).streams
  equal(peak.optimizer, 0)
  equal(elsewhere?.host?.peak.optimizer, before.optimizer)
  for (const kind of kinds) ok(kind === 'optimizer' || peak[kind] <= before[kind] + 16, kind)
  deepEqual(
    new Set(resident.filter(frame => frames[frame].space === 'host').map(frame => frames[frame].kind)),
    new Set(['optimizer']),
  )
})

test('a gradient goes down once and a parameter up once, in the bytes of a rank’s part', () => {
  const { segments, streams, params, mesh } = compileJob(small)
  const moved = { host: 0, device: 0, disk: 0 }
  for (const step of streams[0].steps) {
    if (step.kind !== 'call' || step.param === undefined || segments[step.segment].phase !== 'move') continue
    const { instrs, buffers, roles } = segments[step.segment]
    for (const { dtype, dims, layout, role } of instrs
      .flatMap(instr => traitsOf(instr).writes)
      .map(ref => buffers[ref]))
      moved[spaceOf(roles[role])] += heldElements(mesh, dims, layout) * bytesPer[dtype]
  }
  const elements = params.reduce((sum, { dims }) => sum + Math.ceil(elementsOf(dims) / 2), 0)
  deepEqual(moved, { host: 4 * elements, device: 2 * elements, disk: 0 })
})

test('the text form of a program with spaces is read back', () => {
  const program = compileJob(small)
  deepEqual(parse(print(program)), program)
})

/** [law, what is broken, from, to, what the finding says] */
const broken = [
  [
    'T8',
    'a role played by a frame of another space',
    /(frame \d+ host\.m\.\S+ optimizer \d+ @\d+) host/,
    '$1',
    /is on the device, but its role m is on the host/,
  ],
  [
    'T8',
    'an optimizer that reads the gradient on the device',
    /(segment "update [\s\S]*?role grad gradients \d+) host/,
    '$1',
    /on the host|on the device/,
  ],
  [
    'T8',
    'a move that goes nowhere',
    /(segment "down [\s\S]*?role away.grad gradients \d+) host/,
    '$1',
    /are both on the device/,
  ],
  [
    'L2',
    'an arena of the host that is too small',
    /elsewhere host arena=\d+/,
    'elsewhere host arena=8',
    /beyond the arena of 8/,
  ],
  [
    'L3',
    'a peak of the host that is not the declared one',
    /(elsewhere host .*optimizer:)\d+/,
    '$17',
    /on the host, declared 7/,
  ],
  ['L4', 'a gradient read before it has come', /(\n {2}wait tag="down )(scalars)"/, '', /in flight/],
  ['L10', 'a parameter that is never moved up', /\n {2}call "up [^\n]*\n/, '\n', /was written after the copy/],
] as const

/** Of parameters on the host, with the optimizer's state on the device. */
const brokenParameters = [
  [
    'T8',
    'a gather of what lies on the host',
    /(segment "gather [\s\S]*?role param\.\S+ parameters \d+)\n/,
    '$1 host\n',
    /on the host/,
  ],
  ['L4', 'a part that is gathered before it has come', /\n {2}wait tag="lift gather 1"/, '', /in flight/],
  [
    'L10',
    'a parameter that the device updates and nobody moves down',
    /\n {2}call "up [^\n]*\n/,
    '\n',
    /host\.\S+ is stale at the end of the step: \S+ was written after the copy/,
  ],
] as const

const smallParameters = jobOf('mlp', { dp: 2, zero: 3, offload: { parameters: 'host' } }, { clip: 0.5 })
const smallF32 = { ...small, plan: { ...small.plan, precision: 'f32' } } as const

for (const [law, what, from, to, says, job = smallF32] of [
  ...broken,
  ...brokenParameters.map(row => [...row, smallParameters] as const),
])
  test(`[${law}] ${what}`, () => {
    const text = print(compileJob(job))
    const changed = text.replace(from, to)
    ok(changed !== text, 'nothing was changed')
    const found = verify(parse(changed)).filter(violation => violation.law === law)
    ok(found.length > 0, JSON.stringify(verify(parse(changed)).slice(0, 3)))
    match(found[0].message, says)
  })

test('[L10] a part that is gathered once more, after its parameter was updated', () => {
  const program = compileJob(smallParameters)
  const [stream] = program.streams
  const gather = stream.steps.find(step => step.kind === 'call' && step.segment.startsWith('gather'))
  if (gather?.kind !== 'call') throw new Error('nothing is gathered')
  const isLate = (step: (typeof stream.steps)[number]) => step.kind === 'free' && gather.bind.includes(step.frame)
  const again = [{ ...gather, tag: 'again' }, { kind: 'wait', tag: 'again' } as const]
  const steps = [...stream.steps.filter(step => !isLate(step)), ...again, ...stream.steps.filter(isLate)]
  const [found] = verify({ ...program, streams: [{ ...stream, steps }] }).filter(({ law }) => law === 'L10')
  match(found?.message ?? '', /part\.\S+ is stale when read: \S+ was written after the copy/)
})
