/** The space: every plan of it is sound, none is there twice, and none of those it promises is missing. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { choices, divisors } from '../src/base/index.js'
import { CutPrice, type FrameworkName, frameworks, type Split, splitOf } from '../src/estimate/index.js'
import { check, Job, layersPerStage, worldOfPlan } from '../src/plan/index.js'
import {
  abilitiesOf,
  groupsOf,
  holds,
  jobOf,
  keeps,
  layerSplits,
  parseConstraints,
  pipelinesOf,
  plainSplit,
  type Request,
  savingsOf,
  setupOf,
  splitFrom,
  zeroName,
  zerosOf,
} from '../src/search/index.js'
import { family, test } from './families.js'
import { type Asked, requestOf } from './search-requests.js'

const spaceOf = (request: Request): Split[] =>
  [...groupsOf(request)].flatMap(group =>
    pipelinesOf(request, group.pp).flatMap(pipeline =>
      savingsOf(group, request.constraints).map(saving => splitFrom(group, pipeline, saving)),
    ),
  )

test('divisors', () => {
  deepEqual(divisors(1), [1])
  deepEqual(divisors(12), [1, 2, 3, 4, 6, 12])
  deepEqual(divisors(49), [1, 7, 49])
})

const splits: readonly [layers: number, stages: number, head: number, expected: string][] = [
  [8, 1, 1, 'even'],
  [8, 2, 1, 'even'],
  [8, 2, 2, 'even | 5 3'],
  [8, 4, 1, 'even'],
  [8, 4, 2, 'even | 3 2 2 1 | 1 3 3 1'],
  [7, 3, 1, 'even | 2 3 2'],
  [12, 4, 3, 'even | 4 4 3 1 | 2 4 4 2'],
  [4, 5, 1, '1 1 1 1 0'],
  [4, 6, 1, '0 1 1 1 1 0'],
  [4, 7, 1, ''],
]
for (const [layers, stages, head, expected] of splits)
  test(`${layers} layers in ${stages} stages, the head as heavy as ${head}: ${expected || 'impossible'}`, () => {
    const found = layerSplits(layers, stages, head).map(split => split.layers?.join(' ') ?? 'even')
    equal(found.join(' | '), expected)
  })

test('126 layers in 16 stages: Llama 3 left the first and the last lighter', () =>
  ok(layerSplits(126, 16).some(({ layers }) => layers?.join(' ') === `7 ${'8 '.repeat(14)}7`)))

for (const seed of process.env.SEED ? [Number(process.env.SEED)] : [1, 2, 3, 4, 5, 6])
  test(`plans of the space are sound and different, and jobs read back as them (SEED=${seed})`, () => {
    const { pick, int } = choices(seed)
    const request = requestOf({ devices: pick([4, 6, 8, 12]), batch: pick([4, 6, 12]), layers: 1 + int(9) })
    const space = spaceOf(request)
    ok(space.length > 0)
    equal(new Set(space.map(split => JSON.stringify(split))).size, space.length)
    for (const split of space) {
      const job = jobOf(request, split)
      deepEqual(
        check(job).filter(p => p.severity === 'error'),
        [],
      )
      equal(worldOfPlan(job.plan), request.cluster.devices)
      deepEqual(splitOf(job), split)
    }
  })

const tested = process.env.SEED ? test : family('search space', 4)
for (const seed of process.env.SEED ? [Number(process.env.SEED)] : Array.from({ length: 20 }, (_, i) => i + 1))
  tested(`a sound plan with even layers is in the space (SEED=${seed})`, () => {
    const { pick, int } = choices(seed)
    const request = requestOf({ devices: 8, batch: 16, layers: 4 + int(5) })
    const plan = {
      ...{
        tp: pick([1, 2, 4, 8]),
        pp: pick([1, 2, 4, 8]),
        dp: pick([1, 2, 4, 8]),
        microbatches: pick([1, 2, 4, 8, 16]),
      },
      ...{ zero: int(4), recompute: pick(['none', 'selective', 'full'] as const), sequenceParallel: int(2) === 1 },
      schedule: pick(['gpipe', '1f1b', 'interleaved', 'zb-h1', 'zb-v', 'dualpipe'] as const),
    }
    const { shape, globalBatch } = request
    const job = Job.parse({ model: request.model, training: { seq: shape.seq, globalBatch }, plan })
    const sound = !check(job).some(p => p.severity === 'error') && worldOfPlan(job.plan) === 8
    const inert = (plan.tp === 1 && plan.sequenceParallel) || (plan.dp === 1 && plan.zero > 0) || plan.pp === 1
    const found = spaceOf(request).some(
      split => JSON.stringify(splitOf(jobOf(request, split))) === JSON.stringify(splitOf(job)),
    )
    equal(found, sound && (!inert || (plan.pp === 1 && plan.schedule === '1f1b' && plan.dp * plan.tp === 8)))
  })

test('experts are split where that is asked for, and only there', () => {
  const asking = (...constraints: string[]) =>
    spaceOf(requestOf({ devices: 4, batch: 4, layers: 2, experts: 8, software: 'lockstep', constraints }))
  const names = (space: readonly Split[]) => [...new Set(space.map(({ ep, etp = 1 }) => `${ep} x ${etp}`))].sort()
  deepEqual(names(asking()), ['1 x 1', '2 x 1', '4 x 1'])
  deepEqual(asking('etp=1'), asking())
  deepEqual(names(asking('etp<=4')), ['1 x 1', '1 x 2', '1 x 4', '2 x 1', '2 x 2', '4 x 1'])
  const request = requestOf({
    devices: 4,
    batch: 4,
    layers: 2,
    experts: 8,
    software: 'lockstep',
    constraints: ['etp=2'],
  })
  for (const split of spaceOf(request)) {
    equal(split.etp, 2)
    const job = jobOf(request, split)
    deepEqual(
      check(job).filter(p => p.severity === 'error'),
      [],
    )
    deepEqual(splitOf(job), split)
  }
})

test('layers per stage of a job are those of the split', () => {
  const split: Split = { ...plainSplit, pp: 3, layers: [1, 3, 2] }
  deepEqual(layersPerStage(jobOf(requestOf({ layers: 6 }), split).plan, 6), [1, 3, 2])
})

const kept: readonly [constraint: string, split: Partial<Split>, expected: boolean][] = [
  ['tp<=8', { tp: 8 }, true],
  ['tp<8', { tp: 8 }, false],
  ['pp=16', { pp: 8 }, false],
  ['pp == 16', { pp: 16 }, true],
  ['zero!=3', { zero: 3 }, false],
  ['dp>=2', { dp: 1 }, false],
  ['dp>1', { tp: 4 }, true],
  ['schedule=1f1b|interleaved', { schedule: 'interleaved' }, true],
  ['schedule!=1f1b', { schedule: '1f1b' }, false],
  ['recompute=none', { recompute: 'full' }, false],
  ['sp=true', { sequenceParallel: false }, false],
  ['layers=even', { schedule: '1f1b', layers: [1, 2] }, false],
  ['layers=even', { tp: 2 }, true],
  ['memory<=70GiB', { tp: 2 }, true],
]
for (const [text, split, expected] of kept)
  test(`${JSON.stringify(split)} ${expected ? 'keeps' : 'breaks'} ${text}`, () => {
    const { constraints, problems } = parseConstraints([text])
    deepEqual(problems, [])
    equal(holds(split, constraints[0]), expected)
  })

const refused: readonly [text: string, message: RegExp, suggestion?: RegExp][] = [
  ['tp', /not a comparison/, /tp<=8/],
  ['tpp<=8', /unknown field tpp/, /did you mean tp/],
  ['tp<=many', /many is not an integer/],
  ['memory>=70GiB', /only an upper limit/],
  ['memory<=lots', /lots is not a memory size/],
  ['schedule=1f1', /unknown schedule 1f1/, /did you mean 1f1b/],
  ['recompute<=full', /only be compared with = or !=/],
]
for (const [text, message, suggestion = /.*/] of refused)
  test(`--constraint '${text}' is refused`, () => {
    const { problems } = parseConstraints(['pp=1', text])
    equal(problems.length, 1)
    ok(message.test(problems[0].message), problems[0].message)
    ok(suggestion.test(problems[0].suggestion ?? ''), problems[0].suggestion)
  })

for (const framework of Object.keys(frameworks) as FrameworkName[])
  test(`what ${framework} can run is understood`, () => {
    const known = abilitiesOf(framework).map(({ text }) => text)
    equal(parseConstraints(known).problems.length, 0)
    equal(known.length === 0, framework === 'lockstep')
  })

test('constraints cut the space and leave nothing that breaks them', () => {
  const asked = ['tp<=2', 'pp>1', 'zero!=3', 'schedule=1f1b|interleaved', 'recompute!=full', 'microbatch<=2']
  const { constraints } = parseConstraints(asked)
  const cut = spaceOf({ ...requestOf(), constraints })
  deepEqual(
    new Set(cut.map(split => JSON.stringify(split))),
    new Set(
      spaceOf(requestOf())
        .filter(split => keeps(split, constraints))
        .map(split => JSON.stringify(split)),
    ),
  )
})

test('what moves once a step is searched, where it makes a difference', () => {
  const names = (dp: number, microbatches: number) => zerosOf({ dp, cp: 1, microbatches }).map(zeroName)
  deepEqual(names(1, 4), ['zero 0'])
  deepEqual(names(4, 1), ['zero 0', 'zero 1', 'zero 2', 'zero 3', 'zero 3, gather step'])
  deepEqual(names(4, 4).slice(2, 6), ['zero 2', 'zero 2, reduce step', 'zero 3', 'zero 3, gather step'])
  deepEqual(names(4, 4).slice(6), ['zero 3, reduce step', 'zero 3, reduce step, gather step'])
  const { constraints } = parseConstraints(['reduce=step', 'gather=use'])
  const kept = savingsOf({ dp: 4, cp: 1, microbatches: 4 }, constraints).map(zeroName)
  // ZeRO-2 that reduces once a step comes to ZeRO-1.
  deepEqual([...new Set(kept)], ['zero 0', 'zero 1', 'zero 3, reduce step'])
})

test('long sequences are cut over cp, short ones where that is asked for; ZeRO splits over its ranks too', () => {
  const cpsOf = (asked: Asked) => [...new Set(spaceOf(requestOf(asked)).map(({ cp }) => cp))].sort((a, b) => a - b)
  deepEqual(cpsOf({ devices: 8 }), [1])
  deepEqual(cpsOf({ devices: 8, constraints: ['cp<=4'] }), [1, 2, 4])
  deepEqual(cpsOf({ devices: 8, seq: 16384 }), [1, 2, 4])
  const alone = spaceOf(requestOf({ devices: 8, constraints: ['cp=8'] }))
  deepEqual([...new Set(alone.map(({ zero }) => zero))], [0, 1, 2, 3])
  const errorsOf = (split: Split) =>
    check(jobOf(requestOf({ devices: 8 }), split)).filter(({ severity }) => severity === 'error')
  ok(alone.every(split => split.dp === 1 && split.cp === 8 && errorsOf(split).length === 0))
})

test('where a sequence is split, keys meet queries in the way that takes a layer the least time', () => {
  const request = requestOf({ devices: 8, seq: 32768, software: 'lockstep', constraints: ['cp=8'] })
  const [split] = spaceOf(request)
  const { ring: _, ulysses: __, ...gathered } = split
  const busy = (of: Split) => new CutPrice(setupOf(request, { ...of, microbatch: 1 })).busy()
  ok(split.ring || split.ulysses)
  for (const other of [gathered, { ...gathered, ring: true as const }, { ...gathered, ulysses: 8 }])
    ok(check(jobOf(request, other)).some(({ severity }) => severity === 'error') || busy(split) <= busy(other))
})

test('virtual stages: at most 12 per rank, and more where a constraint names them or the plan has them', () => {
  const deep = requestOf({ layers: 80 })
  const most = (pipelines: readonly { readonly chunks: number }[]) => Math.max(...pipelines.map(({ chunks }) => chunks))
  ok(most(pipelinesOf(deep, 2)) <= 12 && most(pipelinesOf(deep, 2)) > 8)
  equal(most(pipelinesOf(requestOf({ layers: 80, constraints: ['chunks>12'] }), 2)), 41)
  equal(most(pipelinesOf(deep, 2, 20)), 20)
})
