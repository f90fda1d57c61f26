/** The reference that schemas print: complete, an example that is taken, and the same fields as the pages have. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { type FieldReference, takesAt } from '../src/base/index.js'
import { clusterFields } from '../src/cluster/index.js'
import { habitKeys } from '../src/plan/habit-words.js'
import { Job, jobFields } from '../src/plan/index.js'
import { lockstep } from './memory-io.js'

const jobs = jobFields()
const paths = new Set(jobs.map(({ path }) => path))
const isLeaf = ({ path }: FieldReference, all: readonly FieldReference[]) =>
  !all.some(other => other.path.startsWith(`${path}.`) || other.path.startsWith(`${path}[`))

test('every field of a job that holds no others has a meaning and an example', () => {
  const leaves = jobs.filter(
    field => isLeaf(field, jobs) && !/^(training\.paramGroups|plan\.compress\.virtual)\./.test(field.path),
  )
  ok(leaves.length > 150)
  deepEqual(
    leaves.filter(({ example }) => example === undefined).map(({ path }) => path),
    [],
  )
  deepEqual(
    leaves.filter(({ meaning }) => meaning === '').map(({ path }) => path),
    ['training.optimizer.kind', 'training.lossScale.kind'],
  )
})

test('every field of a request of a cluster too', () => {
  const fields = clusterFields().filter(({ of }) => of === undefined)
  const ofTori = ['dims', 'slices', 'sliceBandwidth'] // the examples are those of a tree
  ok(fields.every(({ meaning, example, path }) => meaning !== '' && (example !== undefined || ofTori.includes(path))))
})

test('examples of a plan are taken by its schema', () => {
  for (const { path, example } of jobs.filter(({ path }) => /^plan\.\w+$/.test(path)))
    if (example !== undefined) ok(takesAt(Job, path.split('.'), example, {}), `${path}: ${example}`)
})

test('docs/jobs.md names every field of plan, training and data, and no other of a plan', () => {
  const page = readFileSync('docs/jobs.md', 'utf8')
  const missing = [...paths].filter(
    path => /^(plan|training|data)\.\w+$/.test(path) && !new RegExp(`\\b${path.split('.')[1]}\\b`).test(page),
  )
  deepEqual(missing, [])
  const [plan] = /## The plan\n[\s\S]*?\n\n(?=###|## )/.exec(page) ?? ['']
  const named = [...plan.matchAll(/^\| ((?:`\w+`(?:, )?)+) \|/gm)].flatMap(([, words]) => words.match(/\w+/g) ?? [])
  ok(named.length > 15)
  for (const field of named) ok(paths.has(`plan.${field}`), field)
})

test('words typed from habit lead to fields that there are', () => {
  for (const [word, field] of Object.entries(habitKeys)) ok(paths.has(field), `${word}: ${field}`)
})

test('lockstep config: a section, JSON schema, a field that is none', async () => {
  match(
    (await lockstep(['config', 'job', 'plan'])).out,
    /plan\.tp: 1\n {4}tensor parallelism: ranks that shard[\s\S]*?integer, 1 or more, such as 4\n/,
  )
  const schema = JSON.parse((await lockstep(['config', 'job', '--schema'])).out)
  equal(schema.properties.plan.properties.zero.maximum, 3)
  equal(schema.properties.plan.properties.schedule.default, '1f1b')
  ok(schema.properties.model.anyOf[0].enum.includes('llama3-8b'))
  equal(JSON.parse((await lockstep(['config', 'cluster', '--schema'])).out).anyOf.length, 2)
  const { code, err } = await lockstep(['config', 'job', 'tp'])
  equal(code, 1)
  match(err, /did you mean `plan\.tp`/)
})
