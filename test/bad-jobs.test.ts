import { deepEqual, equal, ok } from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'
import { parseJob } from '../src/plan/index.js'
import { good, rows } from './bad-jobs.js'
import { lockstep } from './memory-io.js'

const files: Readonly<Record<string, string>> = {
  './junk.json': '{"model_type": ',
  './bert.json': '{"model_type": "bert"}',
}
const readModel = (path: string) => {
  if (!Object.hasOwn(files, path)) throw new Error('no such file')
  return files[path]
}
const title = (text: string) => JSON.stringify(text.replace(good, 'good ').trim().slice(-90)).slice(1, -1)

for (const [text, ...expected] of rows)
  test(`bad: ${title(text)}`, () => {
    const { job, problems } = parseJob(text, { readModel })
    equal(job, undefined)
    const errors = problems.filter(p => p.severity === 'error')
    const wanted = expected.map(e => /^(\S+) (\S+) \| (.*)$/s.exec(e)!.slice(1))
    const path = (p: string) => (p === '' ? '-' : p)
    const shown = errors.map(p => `${p.code} ${path(p.path)}`)
    deepEqual(
      shown.sort(),
      wanted.map(([code, p]) => `${code} ${p}`).sort(),
      JSON.stringify(problems, null, 1).slice(0, 2000),
    )
    for (const [code, p, fragment] of wanted) {
      const sentences = errors
        .filter(e => e.code === code && path(e.path) === p)
        .map(e => `${e.message}; ${e.suggestion}`)
      ok(
        sentences.some(sentence => sentence.includes(fragment)),
        `${fragment}\nnot in\n${sentences.slice(0, 9).join('\n')}`,
      )
    }
    for (const { line, column, message } of problems) {
      ok(Number.isInteger(line) && line! >= 1 && Number.isInteger(column) && column! >= 1, 'no place')
      ok(!message.includes('\n') && message.length < 400, message)
    }
  })

test(`there are ${rows.length} bad jobs, and the good one is good`, () => {
  ok(rows.length >= 60)
  deepEqual(parseJob(good).problems, [])
})

test('through the command line each is exit code 1, with its lines and no stack trace', async () => {
  for (const [text] of rows.filter(([text]) => text.length < 10_000)) {
    const { code, out, err } = await lockstep(['check', 'job.yaml'], { ...files, 'job.yaml': text })
    equal(code, 1)
    equal(err, '')
    ok(/^job\.yaml:\d+:\d+: (error|warning): /.test(out), out)
    ok(!/internal:|\n {4}at /.test(out), out)
    const json = JSON.parse((await lockstep(['check', '--json', 'job.yaml'], { 'job.yaml': text })).out)
    ok(json.ok === false && json.problems.length > 0)
  }
})

test('problems point at the key or the value that is wrong', () => {
  const places = (text: string) => parseJob(text).problems.map(p => `${p.line}:${p.column} ${p.path}`)
  deepEqual(places('model: gpt2\ntraining:\n  seq: 8\n  globalBatch: "8?"\nplan:\n  tpp: 2\n  layers: [1, -1]\n'), [
    '4:16 training.globalBatch',
    '6:3 plan.tpp',
    '7:15 plan.layers[1]',
  ])
  deepEqual(places('model: gpt2\n\ntraining:\n  seq: 8\n'), ['3:1 training.globalBatch'])
  deepEqual(places('{"model": "gpt2",\n "training": {"seq": 8,\n "globalBatch": 7}, "plan": {"dp": 2}}'), [
    '3:17 training.globalBatch',
  ])
})

test('files that cannot be read are problems too', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-'))
  const outs: string[] = []
  const io = { ...processIo(), out: (text: string) => void outs.push(text) }
  writeFileSync(join(folder, 'big.yaml'), Buffer.alloc(10 * 2 ** 20, 'a: b\n'))
  writeFileSync(join(folder, 'binary.yaml'), Buffer.from([0x7f, 0x45, 0xff, 0xfe, 0, 1]))
  writeFileSync(join(folder, 'folder.yaml'), `model: ./\ntraining: { seq: 8, globalBatch: 8 }`)
  for (const name of [
    'none.yaml',
    '',
    'big.yaml',
    'binary.yaml',
    `${'x'.repeat(5000)}.yaml`,
    'big.yaml/x',
    'folder.yaml',
  ])
    equal(await run(['check', join(folder, name)], io), 1, name)
  rmSync(folder, { recursive: true })
  const reasons = [
    'no such file',
    'is a directory',
    'is too large',
    'not a text file',
    'the name is too long',
    'no such file',
    'unknown model',
  ]
  for (const [i, reason] of reasons.entries()) ok(outs[i].includes(reason), outs[i].slice(-300))
})

/** Texts near a good one: pieces cut, doubled, swapped, or replaced by what breaks parsers. */
const nasty = [
  '[',
  ']',
  '{',
  '}',
  ':',
  '- ',
  '? ',
  '&a ',
  '*a',
  '!!x ',
  '|\n',
  '>',
  '"',
  "'",
  '#',
  '\t',
  '\n',
  '%',
  '---\n',
  '0',
  '-1',
  '1e99',
  '.nan',
  'null',
  '~',
  '<<: ',
  '__proto__',
  '\uFEFF',
  '\u2028',
  'é',
  '💥',
  ',',
  '@',
  '`',
]
const mutation = fc.record({
  at: fc.nat(400),
  cut: fc.nat(12),
  put: fc.oneof(fc.constantFrom(...nasty), fc.string({ maxLength: 6 })),
})
const seed = Number(process.env.SEED ?? 7)

test(`mutated jobs never throw (SEED=${seed})`, () => {
  const property = fc.property(fc.array(mutation, { minLength: 1, maxLength: 8 }), mutations => {
    const text = mutations.reduce(
      (t, { at, cut, put }) => t.slice(0, at % t.length) + put + t.slice((at % t.length) + cut) || ' ',
      good,
    )
    const { job, problems } = parseJob(text, { readModel })
    ok(job !== undefined || problems.some(p => p.severity === 'error'))
    ok(problems.every(p => !/[\p{Cc}]/u.test(p.message + p.path + p.suggestion)))
  })
  fc.assert(property, { numRuns: 1000, seed })
})

test(`any value in place of a job never throws (SEED=${seed})`, () => {
  const field = fc.constantFrom(
    'model',
    'training',
    'plan',
    'dp',
    'layers',
    'family',
    'schedule',
    'optimizer',
    'preset',
    'seq',
  )
  const value = fc.letrec(tie => ({
    any: fc.oneof(
      { maxDepth: 4 },
      fc.jsonValue(),
      fc.double(),
      fc.dictionary(field, tie('any')),
      fc.constantFrom('llama', 'gpt', '1f1b', 'gpt2'),
    ),
  })).any
  fc.assert(
    fc.property(value, v => void parseJob(JSON.stringify(v) ?? '', { readModel })),
    { numRuns: 300, seed },
  )
})
