/**
 * Which test files run which parts of the compiled sources, from V8's block coverage, and what each file takes. Kept in
 * dist/mutate/coverage until the test or a source that it runs is compiled anew.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { runTest } from './run-test.mjs'

/** Files that need a browser, a cluster of processes or minutes: what only they notice is not looked for. */
const leftOut =
  /^(studio|emit|browser|docs|examples|installed|train|dry-run|calibrate|add-a-fact|progress|race|gpu-paths|latest-run|structure|words)/

export const testFiles = () =>
  readdirSync('test')
    .filter(name => name.endsWith('.test.ts') && !leftOut.test(name))
    .map(name => name.replace('.test.ts', ''))
    .filter(name => existsSync(`dist/test/${name}.test.js`))

/** The compiled module of a source. */
export const compiledOf = source => join('dist', source.replace(/\.ts$/, '.js'))

const hashOf = files => {
  const hash = createHash('sha256')
  for (const file of files) hash.update(existsSync(file) ? readFileSync(file) : '')
  return hash.digest('hex')
}

/** For each source of `modules` (compiled, by URL) the ranges that V8 counted, of all processes and threads of a test. */
function rangesIn(folder, modules) {
  const found = {}
  for (const name of readdirSync(folder))
    for (const { url, functions } of JSON.parse(readFileSync(join(folder, name), 'utf8')).result) {
      const source = modules.get(url.split('?')[0])
      if (source === undefined) continue
      const ranges = functions.flatMap(each =>
        each.ranges.map(({ startOffset, endOffset, count }) => [startOffset, endOffset, count > 0 ? 1 : 0]),
      )
      found[source] = [...(found[source] ?? []), ranges]
    }
  return found
}

/** Whether one of the processes ran the text at an offset: the innermost range around it was counted. */
export const isCovered = (processes, offset) =>
  (processes ?? []).some(ranges => {
    let innermost
    for (const range of ranges)
      if (range[0] <= offset && offset < range[1] && (!innermost || range[1] - range[0] <= innermost[1] - innermost[0]))
        innermost = range
    return innermost?.[2] === 1
  })

/** What a test file runs of the sources, `{ name, ms, sources }`; undefined where it fails as it is. */
async function coverageOf(name, modules, kept) {
  const file = `dist/test/${name}.test.js`
  const path = join(kept, `${name}.json`)
  const known = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined
  const keyOf = sources => hashOf([file, ...sources.map(compiledOf)])
  if (known?.how === 'passed' && known.key === keyOf(Object.keys(known.sources))) return known
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-coverage-'))
  const begin = performance.now()
  const how = await runTest(file, { env: { NODE_V8_COVERAGE: folder, LOCKSTEP_TESTS: 'fast' }, limit: 300 })
  const ms = performance.now() - begin
  const made = { name, ms, how, sources: how === 'passed' ? rangesIn(folder, modules) : {} }
  rmSync(folder, { recursive: true, force: true })
  writeFileSync(path, JSON.stringify({ ...made, key: keyOf(Object.keys(made.sources)) }))
  console.error(`${name}: ${how}, ${(ms / 1000).toFixed(1)} s, runs ${Object.keys(made.sources).length} of the sources`)
  return made
}

/** The test files, the quickest first, with what each runs of these sources. */
export async function recordCoverage(sources, root, home) {
  const modules = new Map(sources.map(source => [pathToFileURL(join(root, compiledOf(source))).href, source]))
  const kept = join(home, 'dist/mutate/coverage')
  mkdirSync(kept, { recursive: true })
  const made = []
  for (const name of testFiles()) made.push(await coverageOf(name, modules, kept))
  return made.filter(({ how }) => how === 'passed').sort((a, b) => a.ms - b.ms)
}
