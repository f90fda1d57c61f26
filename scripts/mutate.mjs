/**
 * Mutation testing of the code that decides correctness: changes one expression at a time and runs the tests that execute it, the
 * quickest first, then those that targets.mjs names. Of the generated runtime, emitted jobs.
 * Usage: npm run mutate [-- --sample 500 --seed N --jobs N --limit seconds word ...]   sources whose path contains one of the words
 * Results are kept in dist/mutate/seed-N.json; started again it resumes.
 */
import { execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { SourceMap } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import process from 'node:process'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { compiledOf, isCovered, recordCoverage } from './mutate/coverage.mjs'
import { EmittedJobs } from './mutate/emitted.mjs'
import { excused } from './mutate/excused.mjs'
import { mutantsOf } from './mutate/javascript.mjs'
import { runTest } from './mutate/run-test.mjs'
import { targets } from './mutate/targets.mjs'
import { randomFrom } from './perturb/values.mjs'

const home = dirname(dirname(fileURLToPath(import.meta.url)))
/** Mutants are made and tested in a copy of the tree: a run that is killed leaves no mutant in the sources. */
const root = mkdtempSync(join(tmpdir(), 'lockstep-mutate-'))
const leftOut = /^(\.git|\.venv|node_modules|runs|dist\/(mutate|perturb))(\/|$)/
cpSync(home, root, {
  recursive: true,
  preserveTimestamps: true,
  filter: source => !leftOut.test(relative(home, source)),
})
symlinkSync(join(home, 'node_modules'), join(root, 'node_modules'))
process.on('exit', () => rmSync(root, { recursive: true, force: true }))
process.chdir(root)
const { values: options, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    sample: { type: 'string', default: '500' },
    seed: { type: 'string', default: '1' },
    jobs: { type: 'string', default: '2' },
    limit: { type: 'string', default: '300' },
  },
})
const python = process.env.LOCKSTEP_PYTHON ?? 'python3'

const allSources = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .map(name => `src/${name}`)
  .filter(name => /\.(ts|py)$/.test(name) && targets.some(target => target.sources.test(name)))
const sources = allSources.filter(name => words.length === 0 || words.some(word => name.includes(word))).sort()

/** Emitted jobs, from the first mutant that needs them. */
let emitted
/** What is changed: the compiled module, or the Python file itself. */
const changedFile = source => (source.endsWith('.py') ? source : compiledOf(source))

function allMutants() {
  const modules = sources.filter(name => name.endsWith('.ts'))
  const scripts = sources.filter(name => name.endsWith('.py'))
  const inPython =
    scripts.length === 0
      ? {}
      : JSON.parse(
          execFileSync(python, ['scripts/mutate/python.py', ...scripts], { encoding: 'utf8', maxBuffer: 2 ** 28 }),
        )
  return [
    ...modules.flatMap(source =>
      mutantsOf(readFileSync(compiledOf(source), 'utf8')).map(mutant => ({ source, ...mutant })),
    ),
    ...Object.entries(inPython).flatMap(([source, found]) => found.map(mutant => ({ source, ...mutant }))),
  ]
}

/** So many of them, drawn without replacement. */
function sampleOf(all, count) {
  const random = randomFrom(Number(options.seed))
  const left = [...all]
  return Array.from({ length: Math.min(count, all.length) }, () => left.splice(random(left.length), 1)[0])
}

/** The line of the source on which a mutant is. */
function lineOf({ source, start }) {
  const before = readFileSync(changedFile(source)).toString().slice(0, start).split('\n')
  if (source.endsWith('.py')) return before.length
  const map = new SourceMap(JSON.parse(readFileSync(`${compiledOf(source)}.map`, 'utf8')))
  return (map.findEntry(before.length - 1, before.at(-1).length).originalLine ?? -1) + 1
}

const testsOf = ({ source }) =>
  targets
    .find(target => target.sources.test(source))
    .tests.split(' ')
    .map(name => `dist/test/${name}.test.js`)
    .filter(existsSync)

/** Seconds of tests, as they take without a change, that a mutant of TypeScript may cost before it is left to targets.mjs. */
const budget = 60
const imported = pathToFileURL(join(root, 'scripts/mutate/hook.mjs')).href

/** Test files that execute the changed text, as many as the budget allows. */
function coveringTests({ source, start }) {
  let spent = 0
  return coverage
    .filter(({ sources: of }) => isCovered(of[source], start))
    .filter(({ ms }, i) => {
      spent += ms / 1000
      return i === 0 || spent < budget
    })
    .map(({ name, ms }) => ({ file: `dist/test/${name}.test.js`, mode: 'fast', limit: 20 + ms / 100 }))
}

/** Whether a test passes without a change within the limit, by file: one that does not judges nothing. */
const sound = new Map()

async function isSound(file, mode, limit) {
  if (!sound.has(file)) sound.set(file, (await runTest(file, { env: { LOCKSTEP_TESTS: mode }, limit })) === 'passed')
  return sound.get(file)
}

async function judgeModule(mutant) {
  const url = pathToFileURL(join(root, compiledOf(mutant.source))).href
  const covering = coveringTests(mutant)
  const thorough = testsOf(mutant).map(file => ({ file, mode: 'all', limit: Number(options.limit) }))
  for (const { file, mode, limit } of [...covering, ...thorough]) {
    if (mode === 'all' && !(await isSound(file, mode, limit))) continue
    const env = { LOCKSTEP_MUTANT: JSON.stringify({ ...mutant, url }), LOCKSTEP_TESTS: mode }
    const how = await runTest(file, { env, limit, imported })
    // A thorough test that takes its time says nothing; a quick one that does not end was made to by the mutant.
    if (how === 'failed' || (how === 'timed out' && mode === 'fast')) return { result: 'noticed', by: file }
  }
  return { result: 'survived', covered: covering.length > 0 }
}

async function judgeScript(mutant) {
  emitted ??= EmittedJobs.start(root, python)
  const by = await (await emitted).judge(mutant)
  return by ? { result: 'noticed', by } : { result: 'survived', covered: by === null }
}

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))

const report = join(home, `dist/mutate/seed-${options.seed}.json`)
mkdirSync(dirname(report), { recursive: true })
const keyOf = ({ source, start, end, to }) => `${source}:${start}-${end}:${to}`
const known = new Map(
  existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')).map(each => [keyOf(each), each]) : [],
)
const reasonFor = mutant =>
  excused.find(({ source, line, to }) => source === mutant.source && textAt(mutant).includes(line) && to === mutant.to)
const textAt = mutant => readFileSync(mutant.source, 'utf8').split('\n')[mutant.line - 1] ?? ''

const all = allMutants()
const chosen = sampleOf(all, Number(options.sample)).map(mutant => ({ ...mutant, line: lineOf(mutant) }))
console.error(`${chosen.length} of ${all.length} mutants of ${sources.length} files, seed ${options.seed}`)
const coverage = chosen.some(({ source }) => source.endsWith('.ts'))
  ? await recordCoverage(
      allSources.filter(name => name.endsWith('.ts')),
      root,
      home,
    )
  : []
// Emitted jobs run one after the other.
const queues = [
  chosen.filter(({ source }) => source.endsWith('.py')),
  chosen.filter(({ source }) => !source.endsWith('.py')),
]
async function work(queue, judge) {
  for (let mutant = queue.shift(); mutant; mutant = queue.shift()) {
    const key = keyOf(mutant)
    if (known.has(key) && known.get(key).result !== 'survived') continue
    const begin = performance.now()
    known.set(key, { ...mutant, ...(await judge(mutant)), seconds: (performance.now() - begin) / 1000 })
    writeFileSync(report, `${JSON.stringify([...known.values()], undefined, 1)}\n`)
    const { result, by } = known.get(key)
    console.error(
      `${result} ${mutant.source}:${mutant.line} ${mutant.kind}: ${mutant.from.slice(0, 60)} -> ${mutant.to.slice(0, 60)} ${by ?? ''}`,
    )
  }
}
const modules = Array.from({ length: Math.max(1, Number(options.jobs) - (queues[0].length > 0 ? 1 : 0)) }, () =>
  work(queues[1], judgeModule),
)
await Promise.all([work(queues[0], judgeScript), ...modules])
await (await emitted)?.close()

const judged = chosen.map(mutant => known.get(keyOf(mutant)))
const survivors = judged.filter(({ result }) => result === 'survived')
for (const mutant of survivors) {
  const reason = reasonFor(mutant)
  console.log(`${mutant.source}:${mutant.line} ${mutant.kind}${reason ? ` (excused: ${reason.reason})` : ''}`)
  console.log(`  ${textAt(mutant).trim()}\n  - ${mutant.from}\n  + ${mutant.to}`)
}
const unexcused = survivors.filter(mutant => !reasonFor(mutant)).length
const counted = judged.length - survivors.length + unexcused
console.log(
  `${counted} mutants: ${counted - unexcused} noticed, ${unexcused} survived (${((100 * unexcused) / Math.max(1, counted)).toFixed(1)} %)`,
)
process.exitCode = unexcused > 0.05 * counted ? 1 : 0
