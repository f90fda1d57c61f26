/** The search of models with experts: room for rows, and how queries meet keys. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { CutPrice, footprint, type Split, splitOf } from '../src/estimate/index.js'
import { check } from '../src/plan/index.js'
import {
  groupsOf,
  jobOf,
  meetingName,
  meetingsAlong,
  movesFrom,
  parseConstraints,
  plainSplit,
  priceOf,
  type Request,
  readingOf,
  search,
  setupOf,
  showSentence,
  splitFrom,
} from '../src/search/index.js'
import { type Asked, requestOf } from './search-requests.js'

const routed = (asked: Asked = {}): Request =>
  requestOf({ devices: 8, batch: 8, layers: 2, experts: 16, software: 'lockstep', ...asked })

const splitsOf = (request: Request): Split[] =>
  [...groupsOf(request)].map(group => splitFrom(group, { schedule: '1f1b', chunks: 1 }, { zero: 0, recompute: 'none' }))

const isSound = (request: Request, split: Split) => {
  const job = jobOf(request, split)
  deepEqual(
    check(job).filter(({ severity }) => severity === 'error'),
    [],
  )
  deepEqual(splitOf(job), split)
}

test('room for rows is the usual unless a constraint names it: less of it might stop a run', () => {
  ok(splitsOf(routed()).every(({ rows, imbalance = 1 }) => rows === undefined && imbalance <= 2))
  const roomsOf = (text: string) => {
    const request = routed({ constraints: [text, 'pp=1'] })
    for (const split of splitsOf(request)) isSound(request, split)
    const shared = splitsOf(request).filter(({ ep }) => ep === 8)
    return [...new Set(shared.map(({ rows = 2, imbalance = 1 }) => `${rows}: ${imbalance}`))]
  }
  deepEqual(roomsOf('expertCapacity=worst'), ['worst: 8'])
  deepEqual(roomsOf('expertCapacity<=1.5'), ['1: 1', '1.25: 1.25', '1.5: 1.5'])
  deepEqual(roomsOf('expertCapacity=1.3'), ['1.3: 1.3'])
  deepEqual(roomsOf('expertCapacity>=4'), ['4: 4', '6: 6', '8: 8'])
  deepEqual(roomsOf('expertCapacity>8'), ['worst: 8'])
  deepEqual(roomsOf('rows=1.3'), ['1.3: 1.3'], 'its name of before')
})

test('a plan that has room for the worst case has it, and is dearer', () => {
  const [usual, worst] = ['expertCapacity=2', 'expertCapacity=worst'].map(
    rows => search(routed({ constraints: [rows, 'ep=8'] }), { keep: 1 }).best[0],
  )
  equal(usual.split.rows, undefined)
  equal(worst.split.rows, 'worst')
  ok(worst.estimate.step > usual.estimate.step && worst.bytes > usual.bytes)
})

test('constraints on rows that cannot be are refused', () => {
  const said = (text: string) => parseConstraints([text]).problems.map(({ message }) => message)
  match(said('expertCapacity=0.5')[0], /0\.5 is not an expert capacity: a number of at least 1, or worst/)
  match(said('expertCapacity=best')[0], /best is not an expert capacity/)
  deepEqual(said('expertCapacity=worst'), [])
})

const long = (more: Asked = {}) => routed({ seq: 32768, ...more })

test('keys meet queries in the fastest way where there are experts, too, whoever shares them', () => {
  const request = long({ constraints: ['cp=4'] })
  const busy = (split: Split, way: object) => {
    const { ring: _, ulysses: __, ...gathered } = { ...plainSplit, tp: split.tp, cp: split.cp }
    return new CutPrice(setupOf(request, { ...gathered, sequenceParallel: split.sequenceParallel, ...way })).busy()
  }
  const all = splitsOf(request)
  ok(all.some(({ ep }) => ep === 8) && all.every(({ ring, ulysses }) => ring || ulysses))
  for (const split of all) isSound(request, split)
  for (const split of all.filter(({ ep, microbatch }) => ep === 2 && microbatch === 1)) {
    const { ring, ulysses } = split
    const own = busy(split, { ...(ring && { ring }), ...(ulysses && { ulysses }) })
    for (const way of meetingsAlong(request, split)) ok(own <= busy(split, way), meetingName(split))
  }
})

test('what takes longer and needs much less memory is looked at beside the fastest', () => {
  const { shape, cluster, ...request } = requestOf({ devices: 8, seq: 131072, software: 'lockstep' })
  const tight = {
    ...request,
    shape,
    cluster: { ...cluster, device: { ...cluster.device, memory: cluster.device.memory / 8 } },
  }
  const waysOf = (of: Request) => {
    const groups = [...groupsOf({ ...of, constraints: parseConstraints(['cp=8', 'tp=1']).constraints })]
    return [...new Set(groups.map(group => meetingName(group)))]
  }
  const [roomy, narrow] = [waysOf({ ...request, shape, cluster }), waysOf(tight)]
  ok(narrow.length >= roomy.length && narrow[0] === roomy[0])
  const bytes = narrow.map(name => {
    const way = meetingsAlong(tight, { tp: 1, cp: 8 }).find(meeting => meetingName({ cp: 8, ...meeting }) === name)!
    const { activations, workspace } = footprint(setupOf(tight, { ...plainSplit, cp: 8, ...way }))
    return activations + workspace
  })
  ok(
    bytes.every((held, i) => i === 0 || held < bytes[i - 1]),
    `${bytes}`,
  )
})

test('a reading says which imbalance a price assumes', () => {
  const said = (request: Request, split: Partial<Split>) => {
    const plan = priceOf(request, { ...plainSplit, dp: 8, ep: 8, ...split })
    return readingOf(request, plan)
      .filter(({ topic }) => topic === 'ep')
      .map(showSentence)[0]
  }
  match(
    said(routed(), { imbalance: 2 }) ?? '',
    /^ep 8 shards 16 experts, 2 per rank; estimated with 2 times a balanced load \(expertCapacity: 2\); a step above that stops before its update, expertCapacity: worst allows 8/,
  )
  match(said(routed(), { imbalance: 8, rows: 'worst' }) ?? '', /buffers for the worst case, 8 times a balanced load/)
  match(said(routed({ software: 'megatron-2025' }), {}) ?? '', /estimated for a balanced load/)
  equal(said(requestOf({ software: 'lockstep' }), { ep: 1 }), undefined)
})

test('next to a plan are other room for rows and other meetings', () => {
  const request = long()
  const from: Split = { ...plainSplit, cp: 8, ep: 8, ring: true, imbalance: 2 }
  const moves = movesFrom(request, from).filter(({ topic }) => topic === 'rows' || topic === 'attention')
  deepEqual(
    moves.map(({ change }) => showSentence(change)),
    [
      'attention gather',
      'attention ulysses 4 x ring 2',
      'attention ulysses',
      'expertCapacity 1.5',
      'expertCapacity 3',
      'expertCapacity worst',
    ],
  )
  for (const { splits } of moves) for (const split of splits) isSound({ ...request, globalBatch: 1 }, split)
})
