/**
 * The structure of the sources, measured and enforced: `node scripts/structure.mjs` prints the numbers and exits 1 where a
 * limit is broken. Functions are measured by Biome, which parses them; the rest needs no more than the first words of a
 * line, because Biome formats every line.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

export const limits = { p99: 40, longest: 60, file: 400 }

const linesIn = text => text.split('\n').length - 1

const filesBelow = folder =>
  readdirSync(folder, { withFileTypes: true }).flatMap(entry => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return filesBelow(path)
    return /\.(ts|mjs)$/.test(entry.name) ? [path] : []
  })

/** Where each function of more than one line begins, and how many lines it has, the longest first. */
function functionsOf(root) {
  const rule = 'complexity/noExcessiveLinesPerFunction' // biome.json says: from two lines on
  const biome = join(root, 'node_modules/@biomejs/biome/bin/biome')
  const args = ['lint', `--only=${rule}`, '--max-diagnostics=none', '--reporter=json', 'src']
  const options = { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28, stdio: ['ignore', 'pipe', 'ignore'] }
  const { diagnostics } = JSON.parse(execFileSync(process.execPath, [biome, ...args], options))
  return diagnostics
    .filter(({ category }) => category.endsWith(rule.split('/')[1]))
    .map(({ location: { path, start, end } }) => ({
      place: `${path}:${start.line}`,
      lines: end.line - start.line + 1,
    }))
    .sort((a, b) => b.lines - a.lines)
}

/** Modules a file loads before its own first line; types are gone by then, `import()` comes later. */
function valueImports(text) {
  const statement = /^(?:import|export)\b(?!\s+type\b)[^'"]*?(?:\bfrom\s+|^import\s+)['"](\.[^'"]+)['"]/gm
  return [...text.matchAll(statement)].map(([, path]) => path)
}

/** Groups of files that load each other, by Tarjan's algorithm. */
export function cyclesIn(sources) {
  const files = new Map(Object.entries(sources))
  const edges = (file, text) =>
    valueImports(text)
      .map(path => join(dirname(file), path).replace(/\.js$/, '.ts'))
      .filter(path => files.has(path))
  const [index, low, stack, cycles] = [new Map(), new Map(), [], []]
  const visit = file => {
    index.set(file, index.size)
    low.set(file, index.get(file))
    stack.push(file)
    for (const next of edges(file, files.get(file))) {
      if (!index.has(next)) visit(next)
      if (stack.includes(next)) low.set(file, Math.min(low.get(file), low.get(next)))
    }
    if (low.get(file) !== index.get(file)) return
    const group = stack.splice(stack.indexOf(file))
    if (group.length > 1 || edges(file, files.get(file)).includes(file)) cycles.push(group.sort())
  }
  for (const file of files.keys()) if (!index.has(file)) visit(file)
  return cycles
}

/** Names of types that one folder declares in several files. */
export function typesTwice(sources) {
  const places = new Map()
  for (const [file, text] of Object.entries(sources)) {
    const names = text.matchAll(/^(?:export )?(?:abstract )?(?:interface|type|class|enum) (\w+)/gm)
    for (const name of new Set([...names].map(([, name]) => name))) {
      const key = `${dirname(file)}: ${name}`
      places.set(key, [...(places.get(key) ?? []), file])
    }
  }
  return [...places].filter(([, files]) => files.length > 1).map(([key, files]) => `${key} in ${files.join(', ')}`)
}

/** What no line may hold, and where it may nevertheless. */
const forbidden = [
  { what: 'private: write #', pattern: /^\s+(?:private|protected) /gm },
  {
    what: 'state of a module',
    pattern: /^(?:export )?(?:let\b|const \w+(?:: [^=]+)? = new (?:Weak)?(?:Map|Set)\b[^(]*\(\))/gm,
  },
  {
    what: 'Node in a pure folder',
    pattern: /from 'node:/g,
    except: /^src\/(?:cli|node|platform)\//,
  },
  // package.json says that no module is loaded for what it does: a bundler leaves such an import out.
  { what: 'an import for its effect', pattern: /^import ['"]/gm },
]

export const forbiddenIn = sources =>
  forbidden.flatMap(({ what, pattern, except }) =>
    Object.entries(sources)
      .filter(([file]) => !except?.test(file))
      .flatMap(([file, text]) =>
        [...text.matchAll(pattern)].map(({ index }) => `${file}:${linesIn(text.slice(0, index)) + 1} ${what}`),
      ),
  )

/** Everything that was measured, and what is broken. */
export function structureOf(root) {
  const read = folder =>
    Object.fromEntries(filesBelow(join(root, folder)).map(path => [relative(root, path), readFileSync(path, 'utf8')]))
  const sources = read('src')
  const all = {
    ...sources,
    ...read('test'),
    ...read('bench'),
    ...read('examples'),
    ...read('studio'),
    ...read('scripts'),
  }
  const functions = functionsOf(root)
  const quantile = share => functions[Math.floor(functions.length * (1 - share))]?.lines ?? 0
  const files = Object.entries(all).map(([file, text]) => ({ place: file, lines: linesIn(text) }))
  const long = (list, most) => list.filter(({ lines }) => lines > most).map(({ place, lines }) => `${place} ${lines}`)
  return {
    functions,
    quantiles: { median: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99) },
    files: files.sort((a, b) => b.lines - a.lines),
    broken: {
      [`p99 of functions is over ${limits.p99} lines`]: quantile(0.99) > limits.p99 ? [String(quantile(0.99))] : [],
      [`functions over ${limits.longest} lines`]: long(functions, limits.longest),
      [`files over ${limits.file} lines`]: long(files, limits.file),
      'files that load each other': cyclesIn(sources).map(files => files.join(' ')),
      'types declared twice in one folder': typesTwice(sources),
      'not in this code base': forbiddenIn(sources),
    },
  }
}

function main() {
  const { functions, quantiles, files, broken } = structureOf(fileURLToPath(new URL('..', import.meta.url)))
  const { median, p90, p99 } = quantiles
  const longest = list => list.slice(0, 5).map(({ place, lines }) => `  ${String(lines).padStart(4)} ${place}`)
  console.log(
    [
      `${functions.length} functions of more than one line: median ${median}, p90 ${p90}, p99 ${p99} lines; the longest:`,
      ...longest(functions),
      `${files.length} files; the longest:`,
      ...longest(files),
    ].join('\n'),
  )
  const wrong = Object.entries(broken).filter(([, places]) => places.length > 0)
  for (const [what, places] of wrong) console.error(`${what}:\n${places.map(place => `  ${place}`).join('\n')}`)
  process.exitCode = wrong.length > 0 ? 1 : 0
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) main()
