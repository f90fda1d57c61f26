/** Published peaks and layouts that ran out of memory, beside the closed form. Rows that constants were chosen on do not count. */
import { deepEqual, ok } from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import {
  classifyLayouts,
  compareMemory,
  compareTimes,
  fitsOfRuns,
  meanError,
  recallAndPrecision,
  rowsOf,
} from '../src/validate/index.js'

const rows = (name: string) => rowsOf(readFileSync(`validation/${name}.csv`, 'utf8'))

const { compared, aside } = compareMemory(['zero-bubble', 'bloom', 'bloom-v100', 'torchtitan', 'sailor'].flatMap(rows))

test('peak memory: a mean error of at most 6 % over all rows', () => {
  const error = meanError(compared)
  ok(compared.filter(({ fitted }) => !fitted).length > 100)
  ok(error <= 0.06, `${(100 * error).toFixed(2)} %`)
})

for (const [origin, most] of [
  ['zero bubble', 0.03],
  ['bigscience', 0.05],
  ['torchtitan', 0.05],
  ['sailor', 0.06],
] as const)
  test(`peak memory, ${origin}: a mean error of at most ${100 * most} %`, () => {
    const error = meanError(compared.filter(row => row.origin === origin))
    ok(error <= most, `${(100 * error).toFixed(2)} %`)
  })

test('few rows chose the constants, and few are set aside, each with its reason', () => {
  ok(compared.filter(({ fitted }) => fitted).length <= 12)
  deepEqual(
    aside.map(({ row, reason }) => `${row.line}: ${reason}`),
    [
      '20: model shape unknown',
      '7: stages of 26 = 26 are not 32 layers, an embedding and a head',
      ...[16, 17, 18, 19].map(line => `${line}: different devices in one job`),
    ],
  )
})

test('out of memory or not: recall of at least 95 %, precision of at least 85 %', () => {
  const { classified, aside: failed } = classifyLayouts(rows('layouts'))
  for (const counted of [classified, classified.filter(({ fitted }) => !fitted)]) {
    const { recall, precision } = recallAndPrecision(counted)
    ok(recall >= 0.95 && precision >= 0.85, `recall ${recall}, precision ${precision}`)
  }
  ok(failed.every(({ reason }) => reason === 'failed for a reason other than memory'))
})

test('rows are read as written: quotes, percentages, nothing where nothing is', () => {
  const [row, ...rest] = rowsOf('source,n_gpus,reported_mfu,tp,notes\n"a, ""b""\nc",8,41.25%,,x\n')
  deepEqual(
    [row.source, row.n_gpus, row.reported_mfu, row.tp, row.notes, row.line],
    ['a, "b"\nc', 8, 0.4125, undefined, 'x', 1],
  )
  deepEqual(rest, [])
  deepEqual(rowsOf('source,tp\na,many\n')[0].tp, undefined)
})

test('runs that happened: at most 2 % are predicted not to fit, none of llm-foundry', () => {
  const files = readdirSync('validation').filter(name => name.endsWith('.csv'))
  const { timed } = compareTimes(files.flatMap(name => rows(name.slice(0, -4))))
  const all = fitsOfRuns(timed)
  ok(all.runs > 1000 && all.unfit / all.runs <= 0.02, JSON.stringify(all))
  deepEqual(fitsOfRuns(timed.filter(({ study }) => study === 'mosaic')), { runs: 216, unfit: 0, unknown: 0 })
})
