import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { readFixture } from './fixtures.js'
import { lockstep } from './memory-io.js'

interface Fixture {
  readonly world: number
  readonly tp: number
  readonly cp: number
  readonly ep: number
  readonly etp: number
  readonly pp: number
  readonly dp: number
  readonly edp: number
  readonly order: string
  readonly dense: Groups
  readonly expert: Groups
  readonly pp_groups_match: boolean
}
type Groups = Readonly<Record<string, readonly (readonly number[])[]>>

const fixtures: Fixture[] = ['rank_groups.json', 'moe/rank_groups_folding.json'].flatMap(name =>
  JSON.parse(readFixture(name)),
)

/** Ranks that differ along some axes only. */
function partition(grid: Readonly<Record<string, number>>, order: string, world: number, along: string): number[][] {
  let stride = 1
  const places = order.split('-').map(axis => {
    const size = grid[axis] ?? 1
    const at = { axis, size, stride }
    stride *= size
    return at
  })
  const others = places.filter(({ axis }) => !along.split('-').includes(axis))
  const parts = new Map<string, number[]>()
  for (let rank = 0; rank < world; rank++) {
    const key = others.map(({ stride, size }) => Math.floor(rank / stride) % size).join()
    parts.set(key, [...(parts.get(key) ?? []), rank])
  }
  return [...parts.values()]
}

/** The groups of the same names. */
const like = (groups: Groups, of: (along: string) => number[][]): Groups =>
  Object.fromEntries(Object.keys(groups).map(name => [name, of(name)]))

const groups = (text: string) => lockstep(['groups', ...text.split(' ')])
const json = async (text: string) => JSON.parse((await groups(`${text} --json`)).out)

for (const { dense, expert, pp_groups_match, ...f } of fixtures) {
  const flags = `--devices ${f.world} --tp ${f.tp} --cp ${f.cp} --ep ${f.ep} --etp ${f.etp} --pp ${f.pp} --order ${f.order}`
  test(`${flags} ${pp_groups_match ? 'gives the groups of Megatron' : 'is refused'}`, async () => {
    const { code, out, err } = await groups(`${flags} --json`)
    equal(code, pp_groups_match ? 0 : 1)
    equal(err, '')
    const { tp, cp, dp, pp, ep, etp, edp, order, world } = f
    const grids = { dense: { tp, cp, dp, pp }, expert: { tp: etp, ep, dp: edp, pp } }
    const theirs = { dense, expert }
    const ours = Object.fromEntries(
      Object.entries(grids).map(([of, grid]) => [
        of,
        like(theirs[of as 'dense'], along => partition(grid, order, world, along)),
      ]),
    )
    deepEqual(ours, theirs)
    if (!pp_groups_match)
      return match(JSON.parse(out).problems[0].message, /pipeline groups differ: dense .*, expert .*/)
    const made = JSON.parse(out)
    deepEqual({ dense: like(dense, name => made.dense[name]), expert: like(expert, name => made.expert[name]) }, theirs)
  })
}
test('the fixtures were found', () => ok(fixtures.length > 0))

test('the default order needs no flag, etp is tp unless given', async () => {
  deepEqual(
    await json('--devices 16 --tp 2 --cp 2 --pp 2'),
    await json('--devices 16 --tp 2 --cp 2 --ep 1 --etp 2 --pp 2 --order tp-cp-ep-dp-pp'),
  )
})

test('torchtitan: pp, dp_replicate, dp_shard, cp, tp, slowest first; experts have ep fastest', async () => {
  const { like, mapping, dense, expert } = await json('--devices 16 --tp 2 --cp 2 --pp 2 --ep 4 --like torchtitan')
  equal(like, 'torchtitan')
  deepEqual(mapping, { dense: 'rank = tp + 2 cp + 4 dp_shard + 8 pp', expert: 'rank = ep + 4 efsdp + 8 pp' })
  deepEqual(dense.fsdp, [
    [0, 2, 4, 6],
    [1, 3, 5, 7],
    [8, 10, 12, 14],
    [9, 11, 13, 15],
  ])
  deepEqual(expert.ep, [
    [0, 1, 2, 3],
    [4, 5, 6, 7],
    [8, 9, 10, 11],
    [12, 13, 14, 15],
  ])
  deepEqual((await json('--devices 8 --tp 2 --dp-replicate 2 --like torchtitan')).dense.dp_replicate, [
    [0, 4],
    [1, 5],
    [2, 6],
    [3, 7],
  ])
  equal((await groups('--devices 8 --tp 2 --ep 3 --like torchtitan')).code, 1)
})

test('picotron: dp slowest, then pp, cp, tp', async () => {
  const { mapping, dense } = await json('--devices 16 --tp 2 --cp 2 --pp 2 --like picotron')
  equal(mapping.dense, 'rank = tp + 2 cp + 4 pp + 8 dp')
  deepEqual(dense.pp, [
    [0, 4],
    [1, 5],
    [2, 6],
    [3, 7],
    [8, 12],
    [9, 13],
    [10, 14],
    [11, 15],
  ])
  deepEqual(dense.dp, [
    [0, 8],
    [1, 9],
    [2, 10],
    [3, 11],
    [4, 12],
    [5, 13],
    [6, 14],
    [7, 15],
  ])
})

test('deepspeed: pipe slowest, then data, then model', async () => {
  const { mapping, dense } = await json('--devices 8 --tp 2 --pp 2 --like deepspeed')
  equal(mapping.dense, 'rank = tp + 2 dp + 4 pp')
  deepEqual(dense.pipe, [
    [0, 4],
    [1, 5],
    [2, 6],
    [3, 7],
  ])
  deepEqual(dense.data, dense.dp)
  equal((await groups('--devices 8 --cp 2 --like deepspeed')).code, 1)
})

test('every rank is in exactly one group of each kind', async () => {
  for (const like of ['megatron', 'torchtitan', 'picotron', 'deepspeed']) {
    const { dense, expert } = await json(`--devices 24 --tp 2 --pp 3 --like ${like}`)
    for (const [name, parts] of Object.entries({ ...dense, ...expert }) as [string, number[][]][]) {
      deepEqual(
        parts.flat().sort((a, b) => a - b),
        [...Array(24).keys()],
        `${like} ${name}`,
      )
      ok(parts.every(part => part.length === parts[0].length))
    }
  }
})

test('people get a table, and one line per group kind at any size', async () => {
  const { code, out } = await groups('--devices 16 --tp 2 --cp 2 --pp 2')
  equal(code, 0)
  match(out, /dense: rank = tp \+ 2 cp \+ 4 dp \+ 8 pp\n/)
  match(out, /^tp-cp +4 +4 {2}\[0,1,2,3\] \[4,5,6,7\] \[8,9,10,11\] \[12,13,14,15\]$/m)
  ok((await groups('--devices 65536 --tp 8 --pp 8')).out.split('\n').every(line => line.length < 140))
})

test('wrong sizes are all named at once', async () => {
  const refused = async (text: string, ...fragments: RegExp[]) => {
    const { code, err, out } = await groups(text)
    equal(code, 1, text)
    equal(out, '')
    equal(err.trim().split('\n').length, fragments.length, err)
    for (const fragment of fragments) match(err, fragment)
  }
  await refused('--devices 0 --tp -1 --pp 1.5', /world: must be/, /tp: must be.*got -1/, /etp: /, /pp: .*got 1\.5/)
  await refused(
    '--devices 16 --tp 3 --ep 5',
    /world 16 \/ \(tp 3 x cp 1 x pp 1 = 3\) = 5\.333/,
    /etp 3 x ep 5 x pp 1 = 15/,
  )
  await refused('--devices 99999999', /from 1 to 131072/)
  await refused('--devices 8 --order tp-xx-dp', /`xx` is not an axis/)
  await refused('--devices 8 --order tp-tp-dp', /`tp` is not an axis, or is listed twice/)
  await refused('--devices 8 --pp 2 --order tp-dp', /pp missing/)
  await refused('--devices 8 --ep 2 --cp 2 --like deepspeed', /no expert axis/, /no context axis/)
})

test('what is not a number is a usage error', async () => {
  for (const text of ['--devices x', '--devices 1e3x', '--tp 2', '--devices 8 --like megatorn', '--devices'])
    equal((await groups(text)).code, 2, text)
})

test('a reader that leaves early is no failure', () => {
  const command = '{ node bin/lockstep.mjs groups --devices 65536 --tp 8 --json | head -c 9; } 2>&1'
  const piped = execFileSync('sh', ['-c', command], { encoding: 'utf8' })
  equal(piped, '{"dense":')
})

test('--dp is derived: the message says from what', async () => {
  const { code, err } = await lockstep(['groups', '--devices', '8', '--dp', '4'], {})
  equal(code, 2)
  match(err, /--dp: .*dp = devices \/ \(tp x cp x pp\)/)
})
