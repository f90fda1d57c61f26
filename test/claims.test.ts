/** Every claim of the course notes is run, and has the verdict that stands here; with a core that lies it falls. */
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import {
  type Claim,
  type Core,
  claims,
  core,
  labOf,
  learnPages,
  settle,
  type Verdict,
  written,
} from '../studio/claims/index.js'
import { runCommand } from './command-line.js'
import { later, test } from './families.js'

/** All that are not `yes`. */
const verdicts: Readonly<Record<string, Verdict>> = {
  'activations-grow-with-the-square': 'depends',
  'bytes-a-parameter': 'depends',
  'compression-where-the-wire-is-slow': 'depends',
  'data-parallel-is-cheapest': 'depends',
  'experts-multiply-the-world': 'depends',
  'gradient-traffic-is-the-model': 'depends',
  'h100-hbm': 'no',
  'nvswitch-across-nodes': 'depends',
  'one-f-one-b-has-less-bubble': 'no',
  'out-of-memory-means-divergence': 'no',
  'parameters-are-copied-back': 'no',
  'pipeline-inside-the-node': 'no',
  'tensor-parallel-traffic-is-low': 'no',
  'traffic-by-axis': 'no',
  'utilisation-needs-a-definition': 'no',
  'zero-four-eight-times': 'depends',
  'zero-one-is-free': 'depends',
}

const lab = labOf()

for (const claim of claims)
  test(`${claim.id} (${claim.notes.join(', ')}): ${claim.text.en}`, () => {
    const { values, verdict, sentence } = settle(claim, lab)
    equal(verdict, verdicts[claim.id] ?? 'yes', sentence.en)
    deepEqual(Object.keys(values).sort(), Object.keys(claim.units).sort())
    for (const [name, value] of Object.entries(values)) ok(Number.isFinite(value), `${name} is ${value}`)
    for (const words of [claim.text, sentence]) {
      ok(/^[A-Z0-9].*[.?]$/s.test(words.en), words.en)
      ok(/[\u4e00-\u9fff]/.test(words.zh) && /[。？]$/.test(words.zh), words.zh)
    }
  })

test('numbers of claims are written with three digits that say something', () => {
  const [count, bytes, share] = (['count', 'bytes', 'share'] as const).map(unit => (n: number) => written(n, unit))
  deepEqual([count(1234567.4), count(-98765), count(999.4), bytes(80e9)], ['1,234,567', '-98,765', '999', '80 GB'])
  deepEqual([bytes(2.5e15), share(0.12345), count(Number.POSITIVE_INFINITY)], ['2,500 TB', '12.3 %', 'NaN'])
  deepEqual([written(1.75, 'times'), written(1.75, 'times', 'zh')], ['1.75x', '1.75 倍'])
})

test('claims have ids of their own and sections of the notes; every learn page has one, every verdict here is of one', () => {
  const ids = claims.map(({ id }) => id)
  equal(new Set(ids).size, ids.length)
  ok(ids.length >= 55, `${ids.length} claims`)
  for (const id of Object.keys(verdicts)) ok(ids.includes(id), id)
  for (const { id, notes } of claims)
    for (const note of notes) ok(/^[A-E](\d+(\.\d+)*[a-c]?)?$/.test(note), `${id}: ${note}`)
  for (const page of learnPages)
    ok(
      claims.some(claim => claim.page === page),
      `${page} has no claim`,
    )
  equal(claims.filter(({ disputed }) => disputed).length, 11)
})

/** A number made nothing, far too large, and everything between in small steps. */
const factors = [
  () => 0,
  (value: number) => value * 1e15 + 1,
  ...Array.from({ length: 231 }, (_, i) => (value: number) => value * 1.02 ** (i - 115)),
]

test('no predicate says the same whatever the numbers are', () => {
  for (const claim of claims) {
    const { values, verdict } = settle(claim, lab)
    const changed = Object.keys(values).flatMap(name =>
      factors.map(by => claim.holds({ ...values, [name]: by(values[name]) })),
    )
    ok(
      changed.some(other => other !== verdict),
      claim.id,
    )
  }
})

test('commands of claims are lines for a terminal', () => {
  for (const { id, command } of claims)
    ok(/^(echo '\{[^']*\}' \| )?lockstep [a-z]+ [^']*$/.test(command), `${id}: ${command}`)
})

later('commands of claims run', async () => {
  // `case` reads tables of validation/, and test/case runs it.
  const lines = new Set(claims.map(({ command }) => command).filter(line => !line.startsWith('lockstep case')))
  for (const command of lines) {
    const { code, err } = await runCommand(command)
    ok(code === 0 || command.includes(' check -'), `${command}\n${err}`)
  }
})

/** Memory and rates of the device, and what prices say of its links, times something. */
const device = (change: (device: ReturnType<Core['clusterOf']>['device']) => object): Partial<Core> => ({
  clusterOf: (...args) => {
    const cluster = core.clusterOf(...args)
    return { ...cluster, device: { ...cluster.device, ...change(cluster.device) } }
  },
})

/** Cores that lie about one thing, and claims that must fall by it. */
const sabotages: readonly (readonly [string, Partial<Core>, readonly string[]])[] = [
  [
    'a network as fast as NVLink',
    { clusterOf: (name, devices) => core.clusterOf(name, devices, { nicBandwidth: 450e9 }) },
    ['fast-inside-slow-between', 'ladder-of-bandwidths', 'nvswitch-across-nodes', 'keep-groups-inside'],
  ],
  ['half of the memory bandwidth', device(({ bandwidth }) => ({ bandwidth: bandwidth / 2 })), ['ridge-of-the-h100']],
  ['a device ten times as large', device(({ memory }) => ({ memory: 10 * memory })), ['out-of-memory-before-the-run']],
  [
    'a backward pass that takes four times a forward, and starts to be waited for',
    { timing: schedule => core.timing(schedule, { F: 1, I: 2, W: 2, C: 1 }) },
    ['bubble-formula', 'zero-bubble', 'interleaving-divides'],
  ],
  [
    'gradients and moments of other widths',
    {
      compileJob: (job, schedule) =>
        core.compileJob({ ...job, plan: { ...job.plan, precision: 'f32', gradients: undefined } }, schedule),
    },
    ['gpt3-eight-bytes', 'optimizer-outweighs-weights', 'masters-are-needed'],
  ],
  ['laws that find nothing', { verify: () => [] }, ['missing-all-reduce-is-named', 'hang-is-named']],
  ['one rank that is told too little', { worstOf: () => 1e-3 }, ['mean-gradient-is-the-whole-batch']],
  [
    'no failures',
    { goodputOf: failures => core.goodputOf({ ...failures, devices: 1 }) },
    ['more-devices-fail-more-often'],
  ],
]
const named = (id: string): Claim => claims.find(claim => claim.id === id)!

for (const [lie, lies, ids] of sabotages)
  test(`${lie}: ${ids.join(', ')} fall`, () => {
    const lying = labOf({ ...core, ...lies })
    for (const id of ids) notEqual(settle(named(id), lying).verdict, verdicts[id] ?? 'yes', id)
  })
