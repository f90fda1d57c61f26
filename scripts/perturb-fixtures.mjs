/**
 * Mutation analysis of the fixtures: changes each value of test/fixtures, one at a time, and reports the changes that no test
 * notices. Only tests that read the value are run, the cheapest first.
 * Usage: npm run perturb-fixtures [-- word ... --seed N --jobs N --most N]   fixtures whose path contains one of the words
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { excused } from './perturb/excused.mjs'
import { Member } from './perturb/member.mjs'
import { changesOf, print, randomFrom } from './perturb/values.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
process.chdir(root)
const { values: options, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: '1' },
    jobs: { type: 'string', default: '2' },
    most: { type: 'string', default: 'Infinity' },
    tests: { type: 'string', multiple: true },
    fresh: { type: 'boolean', default: false },
  },
})
const seed = Number(options.seed)
/** The most a single change may cost, in milliseconds of tests. */
const budget = 30_000

const allFixtures = readdirSync('test/fixtures', { recursive: true, encoding: 'utf8' })
  .filter(name => statSync(join('test/fixtures', name)).isFile())
  .sort()
const fixtures = allFixtures.filter(name => words.length === 0 || words.some(word => name.includes(word)))
const testFiles = readdirSync('test')
  .filter(name => name.endsWith('.test.ts') && /fixtures\.js'/.test(readFileSync(join('test', name), 'utf8')))
  .filter(name => (options.tests ?? ['']).some(word => name.includes(word)))
  .map(name => `dist/test/${name.replace(/\.ts$/, '.js')}`)

/** The changes of all fixtures; of each at most so many, spread over the file. */
function allChanges() {
  const random = randomFrom(seed)
  return fixtures.flatMap(fixture => {
    const changes = changesOf(fixture, readFileSync(join('test/fixtures', fixture)), random)
    const step = Math.max(1, changes.length / Number(options.most))
    return changes
      .filter((_, i) => Math.floor(i / step) !== Math.floor((i - 1) / step))
      .map(change => ({ ...change, path: change.path.join('.'), fixture }))
  })
}

/** How many parts two paths share from the left. */
function shared(a, b) {
  const [x, y] = [a.split('.'), b.split('.')]
  const differs = x.findIndex((part, i) => part !== y[i])
  return differs < 0 ? x.length : differs
}

/** Tests of a file that may notice a change: those that read the value, the cheapest first, and where it is unknown who does, others. */
function candidates({ reads, tests }, { fixture, path }) {
  const parts = Object.entries(reads[fixture] ?? {})
  const below = path === '' ? '' : `${path}.`
  const exact = parts.filter(([part]) => part === '' || part === path || part.startsWith(below))
  const direct = new Set(exact.flatMap(([, readers]) => readers))
  const near = new Map()
  for (const [part, readers] of parts.filter(([part]) => part !== '?'))
    for (const test of readers) near.set(test, Math.max(near.get(test) ?? 0, shared(part, path)))
  const folders = Object.keys(reads).filter(name => fixture.startsWith(`${name}/`))
  const elsewhere = [fixture, ...folders].flatMap(name => reads[name]?.['?'] ?? []).filter(test => !near.has(test))
  const cheapest = [...direct].sort((a, b) => tests[a]?.ms - tests[b]?.ms)
  const nearest = [...near.keys()].sort((a, b) => near.get(b) - near.get(a) || tests[a]?.ms - tests[b]?.ms)
  const order = new Set([...cheapest, ...(direct.has(-1) ? nearest : []), ...elsewhere])
  return within([...order].filter(test => test >= 0), tests) // biome-ignore format: one thought
}

/** As many of the tests as the budget of a change allows, at least one. */
function within(order, tests) {
  let spent = 0
  return order.filter((test, i) => {
    spent += tests[test].ms
    return i === 0 || spent <= budget
  })
}

const limitOf = (wanted, tests) => 20_000 + 10 * wanted.reduce((sum, test) => sum + tests[test].ms, 0)

/** Whether a test fails of itself when it runs alone, on the fixture written anew. */
async function isBroken(member, recorded, change, name) {
  const index = recorded.tests.findIndex(test => test.name === name)
  if (index < 0 || !change.fixture.endsWith('.json')) return false
  const key = `${change.fixture} ${name}`
  recorded.broken ??= new Map()
  if (!recorded.broken.has(key)) {
    const text = print(JSON.parse(readFileSync(join('test/fixtures', change.fixture), 'utf8')))
    const request = { fixture: change.fixture, bytes: Buffer.from(text).toString('base64'), wanted: [index] }
    const answer = await member.ask({ ...request, count: recorded.tests.length }, 60_000)
    recorded.broken.set(key, answer?.noticed !== null)
  }
  return recorded.broken.get(key)
}

async function perturb(member, recorded, change) {
  const wanted = candidates(recorded, change)
  if (wanted.length === 0) return
  change.readers.push(...wanted.map(test => recorded.tests[test].name))
  const request = { fixture: change.fixture, bytes: change.bytes().toString('base64'), wanted }
  const answer = await member.ask({ ...request, count: recorded.tests.length }, limitOf(wanted, recorded.tests))
  const noticed = answer === undefined ? 'the time limit' : answer.noticed
  if (noticed === null) return
  if (await isBroken(member, recorded, change, noticed)) throw new Error(`${noticed}: fails without a change`)
  change.noticed = noticed
}

/** Runs a function on each item, a few at a time. */
async function inParallel(items, work) {
  const queue = [...items]
  const next = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: Number(options.jobs) }, next))
}

/**
 * What each test of a file reads, and how long it takes. Kept until the file or one of these fixtures changes; tests that read none
 * whose own text is the same are then taken to read none still (`--fresh` runs them again).
 */
async function record(file) {
  const kept = join('dist/perturb', `${basename(file)}on`)
  const known = existsSync(kept) && !options.fresh ? JSON.parse(readFileSync(kept, 'utf8')) : undefined
  if (known && known.key === keyOf(file, known)) return known
  const member = new Member(root, file)
  const reading = new Set(
    Object.values(known?.reads ?? {})
      .flatMap(Object.values)
      .flat(),
  )
  const idle = known?.tests.filter((_, i) => !reading.has(i)).flatMap(({ source }) => source ?? [])
  const made = await member.ask({ record: true, idle }, 1_800_000)
  member.close()
  if (made === undefined) throw new Error(`${file}: its tests did not end`)
  const recorded = { ...made, file, ms: costOf(made) }
  mkdirSync('dist/perturb', { recursive: true })
  writeFileSync(kept, `${JSON.stringify({ ...recorded, key: keyOf(file, recorded) })}\n`)
  console.error(
    `${file}: ${made.tests.length} tests, those that read fixtures take ${(recorded.ms / 1000).toFixed(1)} s`,
  )
  return recorded
}

/** Milliseconds of the tests that read fixtures, none of which may fail. */
function costOf({ tests, reads }) {
  const reading = [...new Set(Object.values(reads).flatMap(Object.values).flat())].filter(index => index >= 0)
  for (const { name, error } of reading.map(index => tests[index])) if (error) throw new Error(`${name}: ${error}`)
  return reading.reduce((sum, index) => sum + tests[index].ms, 0)
}

const keyOf = (file, { reads }) =>
  hashOf(
    file,
    ...Object.keys(reads)
      .map(name => join('test/fixtures', name))
      .filter(path => statSync(path, { throwIfNoEntry: false })?.isFile()),
  )

function hashOf(...files) {
  const hash = createHash('sha256')
  for (const file of files) hash.update(readFileSync(file))
  return hash.digest('hex')
}

/** Perturbs what a file's tests read and no other file's have noticed. */
async function perturbAll(recorded, changes) {
  const member = new Member(root, recorded.file)
  try {
    for (const change of changes) if (change.noticed === undefined) await perturb(member, recorded, change)
  } finally {
    member.close()
  }
}

const changes = allChanges().map(change => ({ ...change, readers: [] }))
console.error(`${changes.length} changes of ${fixtures.length} fixtures, seed ${seed}`)
const records = []
await inParallel(testFiles, async file => {
  records.push(await record(file))
})
records.sort((a, b) => a.ms - b.ms)
// Stopped early, it reports what it has.
for (const signal of ['SIGINT', 'SIGTERM'])
  process.on(signal, () => {
    report()
    process.exit(1)
  })
await inParallel(records, async recorded => {
  const begin = performance.now()
  await perturbAll(recorded, changes)
  recorded.isDone = true
  console.error(`${recorded.file}: ${((performance.now() - begin) / 1000).toFixed(1)} s`)
})

/** Where a value is, whichever element of its lists it is in. */
const placeOf = ({ fixture, path }) => `${fixture} ${path.replace(/\b\d+\b/g, '*')}`

function grouped(holes) {
  const places = new Map()
  for (const hole of holes) places.set(placeOf(hole), [...(places.get(placeOf(hole)) ?? []), hole])
  return places
}

const reasonFor = ({ fixture, path }) => excused.find(({ pattern }) => pattern.test(`${fixture} ${path}`))

/** Prints what no test noticed, and how many changes there were; whether all is well. */
function report() {
  const open = records.filter(({ isDone }) => !isDone)
  const isJudged = ({ fixture, noticed }) => noticed !== undefined || !open.some(({ reads }) => reads[fixture])
  const judged = changes.filter(isJudged)
  const unnoticed = judged.filter(({ noticed }) => noticed === undefined)
  const holes = unnoticed.filter(change => !reasonFor(change))
  const isWhole =
    judged.length === changes.length && words.length === 0 && options.tests === undefined && options.most === 'Infinity'
  const idle = isWhole ? excused.filter(excuse => !unnoticed.some(change => reasonFor(change) === excuse)) : []
  for (const [place, [{ path, change, readers }, ...others]] of grouped(holes))
    console.log(`${place} (${others.length + 1}): ${path} ${change}  (${readers[0] ?? 'no test reads it'})`)
  for (const { pattern } of idle) console.log(`${pattern}: excuses nothing`)
  const results = judged.map(({ fixture, path, change, noticed }) => ({
    fixture,
    path,
    change,
    noticed: noticed ?? null,
  }))
  writeFileSync('dist/perturb/report.json', `${JSON.stringify(results)}\n`)
  const excusedCount = unnoticed.length - holes.length
  const noticed = judged.length - unnoticed.length
  console.log(
    `${judged.length} of ${changes.length} changes: ${noticed} noticed, ${excusedCount} excused, ${holes.length} unnoticed (seed ${seed})`,
  )
  return holes.length + idle.length === 0
}
process.exitCode = report() ? 0 : 1
