/**
 * Mutation testing of the code that decides correctness: changes one expression at a time and runs the tests most likely to notice.
 * Usage: npm run mutate [-- --sample 500 --seed N --jobs N --limit seconds word ...]   sources whose path contains one of the words
 * Results are kept in dist/mutate/seed-N.json; started again it goes on where it was.
 */
import { execFileSync, spawn } from 'node:child_process'
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
import { excused } from './mutate/excused.mjs'
import { mutantsOf } from './mutate/javascript.mjs'
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

const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .map(name => `src/${name}`)
  .filter(name => /\.(ts|py)$/.test(name) && targets.some(target => target.sources.test(name)))
  .filter(name => words.length === 0 || words.some(word => name.includes(word)))
  .sort()

const compiledOf = source => join('dist', source.replace(/\.ts$/, '.js'))
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

/** How a test file ends: passed, failed or timed out. */
function runTest(file, env) {
  return new Promise(resolve => {
    const hook = pathToFileURL(join(root, 'scripts/mutate/hook.mjs')).href
    const NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} --import=${hook}`
    const child = spawn(process.execPath, [file], {
      env: { ...process.env, ...env, NODE_OPTIONS, LOCKSTEP_TESTS: 'all' },
      stdio: ['ignore', 'pipe', 'ignore'],
      detached: true,
    })
    const stop = how => {
      clearTimeout(timer)
      try {
        process.kill(-child.pid, 'SIGKILL') // with the processes it started
      } catch {} // it has ended
      resolve(how)
    }
    const timer = setTimeout(() => stop('timed out'), Number(options.limit) * 1000)
    let text = ''
    child.stdout.on('data', data => {
      text = (text + data).slice(-4000)
      if (/^not ok/m.test(text)) stop('failed')
    })
    child.on('exit', code => stop(code === 0 ? 'passed' : 'failed'))
  })
}

/** Python files as they were, while they are changed. */
const originals = new Map()

function change({ source, start, end, to }) {
  const before = readFileSync(source)
  originals.set(source, before)
  writeFileSync(source, Buffer.concat([before.subarray(0, start), Buffer.from(to), before.subarray(end)]))
}

function restore() {
  for (const [source, before] of originals) writeFileSync(source, before)
  originals.clear()
}

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))

async function judge(mutant) {
  const isPython = mutant.source.endsWith('.py')
  const url = pathToFileURL(join(root, compiledOf(mutant.source))).href
  const env = isPython ? {} : { LOCKSTEP_MUTANT: JSON.stringify({ ...mutant, url }) }
  if (isPython) change(mutant)
  try {
    for (const file of testsOf(mutant)) {
      const how = await runTest(file, env)
      if (how !== 'passed') return { result: how === 'failed' ? 'killed' : 'timed out', by: file }
    }
    return { result: 'survived' }
  } finally {
    if (isPython) restore()
  }
}

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
// Python files are changed where they are, so only one of those runs at a time.
const queues = [
  chosen.filter(({ source }) => source.endsWith('.py')),
  chosen.filter(({ source }) => !source.endsWith('.py')),
]
async function work(queue) {
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
  work(queues[1]),
)
await Promise.all([work(queues[0]), ...modules])

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
