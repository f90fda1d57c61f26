// Adds up the records that conformance families leave (test/families.ts): cases planned, run, passed and skipped.
// Usage: node scripts/families.mjs [--strict] FOLDER ...   folders of records that together cover every case
// Exits with 1 where a case did not run or failed; with --strict, as in CI, where one was skipped too.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'

const linesOf = folder =>
  existsSync(folder)
    ? readdirSync(folder).flatMap(name => readFileSync(join(folder, name), 'utf8').split('\n').filter(Boolean))
    : []

/** By family: cases with what happened to each, and how many cases each folder's run planned. */
function read(folders) {
  const families = new Map()
  for (const folder of folders)
    for (const line of linesOf(folder)) {
      const [name, index, event, reason] = JSON.parse(line)
      if (!families.has(name)) families.set(name, { cases: new Map(), planned: new Map() })
      const { cases, planned } = families.get(name)
      if (!cases.has(index)) cases.set(index, {})
      if (event === 'planned') planned.set(folder, (planned.get(folder) ?? 0) + 1)
      cases.get(index)[event] = reason ?? true
    }
  return new Map([...families].sort(([a], [b]) => a.localeCompare(b, 'en')))
}

/** Counts of one family. `isWhole`: the folders cover every case, so one that no run took is missing. */
function counted([name, { cases, planned }], folders, isWhole) {
  const all = [...cases.values()].filter(({ taken }) => isWhole || taken)
  const of = event => all.filter(each => each[event]).length
  const reasons = [...new Set(all.flatMap(({ skipped }) => (skipped === undefined ? [] : [skipped])))]
  const [run, passed, skipped] = [of('run'), of('passed'), of('skipped')]
  // A file that dies while it registers cases plans fewer than it did in another run.
  const isEven = !isWhole || folders.every(folder => planned.get(folder) === cases.size)
  return { name, cases: cases.size, planned: all.length, run, passed, skipped, reasons, isEven }
}

const sum = (rows, key) => rows.reduce((total, row) => total + row[key], 0)

/** The table or its last line alone, and whether every planned case ran and passed. */
export function report(folders, { isWhole = false, isStrict = false, table = false } = {}) {
  const rows = [...read(folders)].map(family => counted(family, folders, isWhole))
  const isGood = row =>
    row.isEven && row.passed === row.run && row.run + row.skipped === row.planned && !(isStrict && row.skipped > 0)
  const width = Math.max(6, ...rows.map(({ name }) => name.length))
  const cells = ({ planned, run, passed, skipped }) =>
    [planned, run, passed, skipped].map(n => String(n).padStart(8)).join('')
  const why = row => [
    ...(row.reasons.length > 0 ? [row.reasons.join('; ')] : []),
    ...(row.isEven ? [] : ['not all cases were registered']),
    ...(isGood(row) ? [] : ['FAILED']),
  ]
  const head = `${'family'.padEnd(width)} ${['planned', 'run', 'passed', 'skipped'].map(word => word.padStart(8)).join('')}`
  const total = { planned: 0, run: 0, passed: 0, skipped: 0 }
  for (const key of Object.keys(total)) total[key] = sum(rows, key)
  const lines = table
    ? [head, ...rows.map(row => `${row.name.padEnd(width)} ${cells(row)}  ${why(row).join(', ')}`.trimEnd())]
    : []
  const failed = rows.filter(row => !isGood(row))
  const missing =
    table || failed.length === 0 ? [] : [`families that failed: ${failed.map(({ name }) => name).join(', ')}`]
  const others = sum(rows, 'cases') - total.planned
  const elsewhere = others > 0 ? ` (${others} more in npm run test:rest)` : ''
  const last = `${rows.length} conformance families: ${total.planned} cases planned${elsewhere}, ${total.run} run, ${total.passed} passed, ${total.skipped} skipped`
  return { lines: [...lines, ...missing, last], isGood: failed.length === 0 }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const isStrict = process.argv[2] === '--strict'
  const { lines, isGood } = report(process.argv.slice(isStrict ? 3 : 2), { isWhole: true, isStrict, table: true })
  console.log(lines.join('\n'))
  process.exitCode = isGood ? 0 : 1
}
