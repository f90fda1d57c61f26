/** Tests of fixtures go by the form of a set: another one, whose files have other names and whose cases come in another order, passes too. */
import { equal } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { later } from './families.js'

/** Names that a set chooses for itself. */
const free = [
  ['cp', /^(attention_)(.*)$/],
  ['moe', /^(layer_)(.*)$/],
  ['tensorboard', /^()(.*)$/],
  ['tokenizers', /^()([^.]*)$/],
] as const

/** Files whose cases may come in any order. */
const unordered = [
  'cp/ring_runs.json',
  'moe/routers.json',
  'rank_groups.json',
  'optimizers/steps.json',
  'compression/quantize.json',
]

const files = [
  'ring-fixtures',
  'experts-fixtures',
  'experts-layers',
  'groups',
  'tensorboard',
  'tokenizers',
  'optimizer-steps',
]

function anotherSet(): string {
  const set = mkdtempSync(join(tmpdir(), 'fixtures-'))
  cpSync('test/fixtures', set, { recursive: true })
  const renamed = (name: string, pattern: RegExp) => name.replace(pattern, '$1other-$2')
  for (const [folder, pattern] of free)
    for (const name of readdirSync(join(set, folder)).filter(name => pattern.test(name)))
      renameSync(join(set, folder, name), join(set, folder, renamed(name, pattern)))
  for (const name of unordered) {
    const path = join(set, name)
    const given = JSON.parse(readFileSync(path, 'utf8').replaceAll('"attention_', '"attention_other-'))
    const turned = Array.isArray(given) ? given.toReversed() : { ...given, cases: given.cases.toReversed() }
    writeFileSync(path, JSON.stringify(turned))
  }
  return set
}

later('a set with other names and another order passes', () => {
  const set = anotherSet()
  const paths = files.map(name => `dist/test/${name}.test.js`)
  const env = { ...process.env, LOCKSTEP_FIXTURES: set, NODE_TEST_CONTEXT: undefined }
  const { status, stdout } = spawnSync(process.execPath, ['--test', ...paths], { env, encoding: 'utf8' })
  rmSync(set, { recursive: true })
  equal(status, 0, stdout.slice(-4000))
})
