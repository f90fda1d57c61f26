/** Plans that do what a user allows beside the usual: found as surely as the others, compiled, and listed with them. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { compileJob } from '../src/compile/index.js'
import { planInput } from '../src/estimate/index.js'
import {
  awaysOf,
  extraNames,
  extraWords,
  findPlans,
  jobOf,
  search,
  searchAll,
  searchedRecipes,
} from '../src/search/index.js'
import { family, test } from './families.js'
import { lockstep } from './memory-io.js'
import { requestOf } from './search-requests.js'

const tested = family('search: extras', 3)
const searches = [
  ...extraNames.filter(name => name !== 'fp8').map(name => ({ name, recipe: undefined })),
  ...searchedRecipes.map(recipe => ({ name: 'fp8', recipe }) as const),
]
for (const { name, recipe } of searches)
  tested(`pruned and unpruned plans find the same with ${[name, recipe].join(' ')}`, () => {
    const asked = { devices: 4, batch: 4, layers: 4, memory: 40, software: 'lockstep' } as const
    const [quick, whole] = [true, false].map(prune =>
      search({ ...requestOf(asked), extras: [name], ...(recipe && { recipe }) }, { keep: 20, prune }),
    )
    ok(whole.best.length > 0)
    deepEqual(
      quick.best.map(({ estimate }) => estimate.step),
      whole.best.map(({ estimate }) => estimate.step),
    )
    deepEqual(
      quick.front.map(({ bytes }) => bytes),
      whole.front.map(({ bytes }) => bytes),
    )
    for (const { split } of quick.best)
      deepEqual(extraWords(split), [recipe && recipe !== 'current' ? `${name}:${recipe}` : name])
  })

const small = { devices: 4, batch: 4, layers: 2, memory: 40, software: 'lockstep' } as const
const testedAway = family('search: offload', 7)
for (const away of awaysOf(requestOf(small)).toReversed())
  testedAway(`pruned and unpruned plans find the same with ${extraWords(away).join()}`, () => {
    const request = { ...requestOf(small), extras: ['offload'], away } as const
    const [quick, whole] = [true, false].map(prune => search(request, { keep: 10, prune }))
    ok(whole.best.length > 0)
    deepEqual(
      quick.best.map(({ estimate }) => estimate.step),
      whole.best.map(({ estimate }) => estimate.step),
    )
    deepEqual(
      quick.front.map(({ bytes }) => bytes),
      whole.front.map(({ bytes }) => bytes),
    )
    for (const { split } of quick.best) {
      deepEqual(extraWords(split), extraWords(away))
      ok(!away.lifted || split.zero === 3)
    }
  })

test('what hosts have no room for goes to disks, and what they have room for does not', () => {
  const request = requestOf(small)
  const withHost = (memory: number) => ({
    ...request,
    cluster: { ...request.cluster, host: { ...request.cluster.host!, memory } },
  })
  const placesOf = (memory: number) => awaysOf(withHost(memory)).flatMap(away => extraWords(away))
  ok(placesOf(1e15).every(words => !words.includes('disk')))
  const tight = placesOf(1)
  deepEqual([tight[0], tight[1], tight[2]], ['offload:states@disk', 'offload:parameters@disk', 'offload:carries'])
  const found = search({ ...withHost(1), extras: ['offload'], away: { offload: 'host' } }, { keep: 1 })
  equal(found.best.length, 0)
})

test('what is allowed is ranked beside the usual: the best of all is the best of each', () => {
  const request = { ...requestOf({ ...small, batch: 2, constraints: ['recompute=none'] }), allowed: extraNames }
  const all = searchAll(request, { keep: 5 })
  const sets = Array.from({ length: 2 ** extraNames.length }, (_, bits) => extraNames.filter((_, i) => (bits >> i) & 1))
  const apart = sets.flatMap(extras =>
    (extras.includes('offload') ? awaysOf(request) : [undefined]).flatMap(away =>
      (extras.includes('fp8') ? searchedRecipes : [undefined]).flatMap(
        recipe => search({ ...request, extras, ...(away && { away }), ...(recipe && { recipe }) }, { keep: 1 }).best,
      ),
    ),
  )
  equal(all.best[0].estimate.step, Math.min(...apart.map(({ estimate }) => estimate.step)))
  for (const name of ['offload', 'wire', 'fp8'] as const) ok(apart.some(({ split }) => split[name]))
  ok(all.front.every(({ bytes }, i) => i === 0 || bytes < all.front[i - 1].bytes))
})

test('plans that are listed compile, with what they do beside the usual', () => {
  const request = {
    ...requestOf({ devices: 4, batch: 4, layers: 2, software: 'lockstep', constraints: ['zero=1', 'recompute=none'] }),
    allowed: extraNames,
  }
  const { listed } = findPlans(request, { top: 6, simulate: 12, front: false })
  ok(listed.some(({ plan }) => extraWords(plan.split).length > 0))
  for (const { plan, simulated } of listed) {
    const { streams } = compileJob(jobOf(request, plan.split))
    equal(simulated!.arena, Math.max(...streams.map(({ arena }) => arena)))
  }
  const [first] = extraNames
  ok(planInput({ ...listed[0].plan.split, wire: { reduce: 'bf16' } }).compress, first)
})

test('plan --allow names what it knows', async () => {
  const asked = [
    'plan',
    '--model',
    'gpt2',
    '--cluster',
    'h100',
    '--seq',
    '64',
    '--global-batch',
    '4',
    '--allow',
    'magic',
  ]
  const { code, err } = await lockstep(asked)
  equal(code, 2)
  match(err, /magic is not compress, offload or fp8/)
})

test('plan --allow is for our own program', async () => {
  const asked = ['plan', '--model', 'gpt2', '--cluster', 'h100', '--seq', '64', '--global-batch', '4', '--devices', '2']
  const { code, err } = await lockstep([...asked, '--software', 'megatron-2024', '--allow', 'offload'])
  equal(code, 1)
  match(err, /--allow: is not in the cost model of megatron-2024; leave it out/)
})
