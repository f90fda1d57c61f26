/**
 * Golden answers: what a sample of jobs compiles to, what is emitted for it and what it is priced at, as fingerprints and
 * figures. A change that should change nothing leaves them alone; UPDATE=1 writes them anew, and the diff names every
 * job whose answer is another.
 */
import { deepEqual } from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { worldOf } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileEvaluation, compileJob } from '../src/compile/index.js'
import { placedOf, timesOf } from '../src/estimate/index.js'
import { type Program, print } from '../src/ir/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { emittedFiles } from './emitted.js'

interface Answer {
  readonly program: string
  readonly emitted: string
  readonly step: string
  readonly arena: number
  readonly estimate?: string
}

const path = (name: string) => fileURLToPath(new URL(`../../test/golden/${name}.json`, import.meta.url))
const read = (name: string) => JSON.parse(readFileSync(path(name), 'utf8'))
const jobs: Readonly<Record<string, JobInput>> = read('jobs')
const expected: Readonly<Record<string, Answer>> = read('answers')

const fingerprint = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16)

/** Programs of models too large to emit in a test are only priced. */
const isSmall = ({ params }: Program): boolean =>
  params.every(({ dims }) => dims.reduce((n, { size }) => n * size, 1) < 1e5)

function answerOf(job: Job): Answer {
  const program = compileJob(job)
  const cluster = clusterOf('h100', worldOf(program.mesh))
  const files = isSmall(program) ? emittedFiles(job, { training: program, judging: compileEvaluation(job) }) : {}
  const code = Object.keys(files)
    .filter(name => /^(evaluation\/)?stage\d+\.(py|json)$/.test(name))
    .sort()
  const placed = placedOf(job)
  return {
    program: fingerprint(print(program)),
    emitted: fingerprint(code.map(name => files[name]).join('\n')),
    step: simulate(program, clusterPrices(program, cluster), { watch: [] }).step.toPrecision(10),
    arena: Math.max(...program.streams.map(({ arena }) => arena)),
    ...(placed && { estimate: timesOf({ ...placed, cluster }).step.toPrecision(10) }),
  }
}

const answers: Record<string, Answer> = {}
for (const [title, job] of Object.entries(jobs))
  test(`golden ${title}`, () => {
    answers[title] = answerOf(Job.parse(job))
    if (process.env.UPDATE) writeFileSync(path('answers'), `${JSON.stringify(answers, null, 2)}\n`)
    else deepEqual(answers[title], expected[title])
  })
