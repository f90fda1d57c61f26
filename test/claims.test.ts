/** Every claim of the course notes is run, and has the verdict that stands here; with another core it falls. */
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type Claim, type Core, claims, core, labOf, settle, type Verdict } from '../studio/claims/index.js'

/** All that are not `yes`. */
const verdicts: Readonly<Record<string, Verdict>> = {
  'bytes-a-parameter': 'depends',
  'h100-hbm': 'no',
  'nvswitch-across-nodes': 'depends',
  'one-f-one-b-has-less-bubble': 'no',
  'zero-four-eight-times': 'depends',
  'zero-one-is-free': 'depends',
}

const lab = labOf()

for (const claim of claims)
  test(`${claim.id} (${claim.notes.join(', ')}): ${claim.text.en}`, () => {
    const { values, verdict, sentence } = settle(claim, lab)
    equal(verdict, verdicts[claim.id] ?? 'yes', sentence.en)
    deepEqual(Object.keys(values).sort(), Object.keys(claim.units).sort())
    for (const [name, value] of Object.entries(values)) ok(Number.isFinite(value), `${name} is ${value}`)
    for (const words of [claim.text, sentence]) {
      ok(/^[A-Z0-9].*[.?]$/s.test(words.en), words.en)
      ok(/[\u4e00-\u9fff]/.test(words.zh) && /[。？]$/.test(words.zh), words.zh)
      ok(!/undefined|NaN/.test(words.en + words.zh), words.en)
    }
  })

test('claims have ids of their own, sections of the notes, and every verdict here is of one of them', () => {
  const ids = claims.map(({ id }) => id)
  equal(new Set(ids).size, ids.length)
  for (const id of Object.keys(verdicts)) ok(ids.includes(id), id)
  for (const { id, notes } of claims)
    for (const note of notes) ok(/^[A-E](\d+(\.\d+)*[a-c]?)?$/.test(note), `${id}: ${note}`)
})

const named = (id: string): Claim => claims.find(claim => claim.id === id)!

/** Cores that lie about one thing, and a claim each that must fall. */
const sabotages: readonly (readonly [string, string, Partial<Core>])[] = [
  [
    'InfiniBand as fast as NVLink',
    'fast-inside-slow-between',
    { clusterOf: (name, devices) => core.clusterOf(name, devices, { nicBandwidth: 300e9 }) },
  ],
]
for (const [what, id, lies] of sabotages)
  test(`${what}: ${id} falls`, () => {
    const before = settle(named(id), lab)
    notEqual(settle(named(id), labOf({ ...core, ...lies })).verdict, before.verdict)
  })
