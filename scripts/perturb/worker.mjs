/**
 * A process that runs the tests of one file again and again, each time with other fixtures: `node:test` is replaced by a list,
 * the test module is loaded anew, and what it imports stays. Started by perturb-fixtures.mjs in a copy of the tree.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { relative, resolve, sep } from 'node:path'
import process from 'node:process'
import { pathToFileURL } from 'node:url'

const [file] = process.argv.slice(2)
const root = resolve('test/fixtures')
const original = { ...fs }

/** Tests of the module in the order of their registration, and what runs around them. */
let suite
/** Index of the test that runs; -1 while the module is loaded. */
let current
/** What was read, while that is recorded: per fixture, per path of a value, which tests. */
let reads

const empty = () => ({ tests: [], before: [], after: [] })
const callable = (options, body) => (typeof options === 'function' ? options : body)
const isSkipped = options => typeof options === 'object' && Boolean(options?.skip)

function test(name, options, body) {
  const run = callable(options, body)
  if (run && !isSkipped(options)) suite.tests.push({ name, run })
}
function describe(_name, options, body) {
  if (!isSkipped(options)) callable(options, body)()
}
const hooks = { before: run => suite.before.push(run), after: run => suite.after.push(run) }

const nodeTest = createRequire(import.meta.url)('node:test')
Object.assign(nodeTest, { test, it: test, describe, suite: describe, ...hooks })

/** The name of a fixture, of a path within the copy. */
function fixtureOf(path) {
  if (typeof path !== 'string') return
  const full = resolve(path)
  return full.startsWith(root + sep) ? relative(root, full) : undefined
}

/** Texts that were read, so that JSON.parse knows whose values it makes. */
const texts = new Map()

function read(fixture, path) {
  if (!reads) return
  reads[fixture] ??= {}
  reads[fixture][path] ??= []
  if (!reads[fixture][path].includes(current)) reads[fixture][path].push(current)
}

/** The value, which notes each leaf that is asked for. */
function watched(value, fixture, path) {
  if (typeof value !== 'object' || value === null) return value
  return new Proxy(value, {
    get(target, key, receiver) {
      const found = Reflect.get(target, key, receiver)
      if (typeof key === 'symbol' || !Object.hasOwn(target, key) || (Array.isArray(target) && key === 'length'))
        return found
      const below = [...path, key]
      if (typeof found !== 'object' || found === null) read(fixture, below.join('.'))
      return watched(found, fixture, below)
    },
  })
}

function watchFiles() {
  fs.readFileSync = (path, ...rest) => {
    const found = original.readFileSync(path, ...rest)
    const fixture = fixtureOf(path)
    if (fixture === undefined || !reads) return found
    if (fixture.endsWith('.json') && typeof found === 'string') texts.set(found, fixture)
    else read(fixture, '')
    return found
  }
  // Whatever is opened or looked for otherwise may be read by other means, such as another program.
  for (const name of ['openSync', 'existsSync', 'createReadStream'])
    fs[name] = (path, ...rest) => {
      const fixture = fixtureOf(path)
      if (fixture !== undefined && current >= 0) read(fixture, name === 'existsSync' ? '?' : '')
      return original[name](path, ...rest)
    }
  const parse = JSON.parse
  JSON.parse = (text, ...rest) => {
    const fixture = reads && texts.get(text)
    return fixture === undefined ? parse(text, ...rest) : watched(parse(text, ...rest), fixture, [])
  }
}
watchFiles()
syncBuiltinESMExports()

/** Whatever fails outside of the test that caused it. */
let stray
for (const event of ['unhandledRejection', 'uncaughtException'])
  process.on(event, error => {
    stray = error
  })

async function run(index) {
  current = index
  const begin = performance.now()
  const around = []
  try {
    await suite.tests[index].run({ after: hook => around.push(hook), diagnostic() {}, skip() {}, test: later })
    for (const hook of around) await hook()
    if (stray) throw stray
    return { ms: performance.now() - begin }
  } catch (error) {
    return { ms: performance.now() - begin, error: `${error?.message ?? error}`.slice(0, 300) }
  }
}
const later = async (_name, options, body) => callable(options, body)({ test: later })

let loads = 0
async function load() {
  suite = empty()
  current = -1
  stray = undefined
  await import(`${pathToFileURL(file)}?${loads++}`)
}

/** Runs every test once, noting what each reads; not those that are known to read nothing. */
async function record(idle = []) {
  reads = {}
  await load()
  for (const hook of suite.before) await hook()
  const tests = []
  for (const [index, { name, run: body }] of suite.tests.entries()) {
    const source = createHash('sha256').update(`${name} ${body}`).digest('hex')
    tests.push({ name, source, ...(idle.includes(source) ? { ms: 0 } : await run(index)) })
  }
  for (const hook of suite.after) await hook()
  const found = reads
  reads = undefined
  texts.clear()
  return { tests, reads: found }
}

/** Runs tests of the record until one fails: its name, or nothing. */
async function firstFailure(wanted, count) {
  try {
    await load()
    for (const hook of suite.before) await hook()
  } catch (error) {
    return `loading: ${error?.message}`.slice(0, 300)
  }
  const order = suite.tests.length === count ? wanted : suite.tests.map((_, index) => index)
  for (const index of order) {
    const { error } = await run(index)
    if (error !== undefined) return suite.tests[index].name
  }
  for (const hook of suite.after) await hook()
  return null
}

async function perturb({ fixture, bytes, wanted, count }) {
  const path = resolve(root, fixture)
  const before = original.readFileSync(path)
  original.writeFileSync(path, Buffer.from(bytes, 'base64'))
  try {
    return { noticed: await firstFailure(wanted, count) }
  } finally {
    original.writeFileSync(path, before)
  }
}

process.on('message', async request => {
  process.send(request.record ? await record(request.idle) : await perturb(request))
})
process.on('disconnect', () => process.exit())
process.send({ ready: true })
