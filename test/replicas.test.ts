/** Silent data corruption: replicas that differ send a run back to the last state that compared equal, or fail it. */
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { FaultBook, parseFaults } from '../src/base/index.js'
import { memoryFiles } from '../src/base/memory-files.js'
import { processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'
import type { HealthEvent } from '../src/health/index.js'
import { Job } from '../src/plan/index.js'
import { type KeptSession, keepGoing, openData, train } from '../src/train/index.js'

const root = mkdtempSync(join(tmpdir(), 'lockstep-replicas-'))
after(() => rmSync(root, { recursive: true, force: true }))

const described = {
  model: { family: 'mlp', layers: 2, embed: 4 },
  training: { seq: 2, globalBatch: 4, steps: 12 },
  plan: { dp: 2 },
} as const
const job = Job.parse(described)
writeFileSync(join(root, 'job.json'), JSON.stringify(described))

const flip = 'flip:rank=1,step=5,parameter=layers.0.up,index=3,bit=20'

async function keptRun(faults: readonly string[], options: object, heard: (event: HealthEvent) => void = () => {}) {
  const { dataset } = await openData(job, memoryFiles())
  const events: HealthEvent[] = []
  const kept: KeptSession = await keepGoing(job, dataset, {
    ...{ kernels: 'auto', faults: new FaultBook(parseFaults(faults).faults), ...options },
    heard(event) {
      events.push(event)
      heard(event)
    },
  })
  return { kept, events }
}

async function finished(kept: KeptSession) {
  const steps: number[] = []
  for await (const { step } of train(kept)) steps.push(step)
  const parameters = kept.program.params.flatMap(({ name }) => [...kept.trainer.parameter(name)])
  await kept.stop()
  return { steps, parameters }
}

for (const [hashEvery, snapshotEvery, found, from] of [
  [2, 1, 6, 4],
  [4, 1, 8, 4],
  [4, 3, 8, 3],
  [3, 0, 6, 0],
] as const)
  test(`replicas compared every ${hashEvery} steps, copied every ${snapshotEvery}: back to step ${from}, and the same result`, async () => {
    const { kept, events } = await keptRun([flip], { hashEvery, snapshotEvery })
    const { steps, parameters } = await finished(kept)
    deepEqual(
      events.map(({ event, step }) => [event, step]),
      [
        ['replicasDiffer', found],
        ['restart', found],
      ],
    )
    equal(events[1].numbers.from, from)
    // Numbers of a corrupt state are told again, from where it was good.
    deepEqual(
      steps.filter((step, i) => step <= steps[i - 1]),
      [from + 1],
    )
    const { kept: calm } = await keptRun([], {})
    deepEqual(parameters, (await finished(calm)).parameters)
  })

test('hardware that corrupts the same steps again and again ends the run, although older steps are taken again', async () => {
  const broken = { parameter: 'layers.0.up', holders: [0, 1].map(rank => ({ rank, hash: String(rank) })) }
  const breaking = ({ trainer }: KeptSession) => {
    trainer.replicas = () => (kept.behind >= 6 ? [broken] : [])
  }
  const { kept, events } = await keptRun([], { hashEvery: 2 }, ({ event }) => event === 'restart' && breaking(kept))
  breaking(kept)
  await rejects(finished(kept), /3 failures without a completed step; the last: step 6: replicas differ/)
  await kept.stop()
  equal(events.filter(({ event }) => event === 'restart').length, 2)
})

/** `lockstep train` on a real disk. */
async function trained(name: string, words: readonly string[]) {
  const said = { out: '', err: '' }
  const io = {
    ...processIo(),
    out: (text: string) => void (said.out += text),
    err: (text: string) => void (said.err += text),
    ...{ colors: false, terminal: () => undefined },
  }
  const [out, saved] = [join(root, name), join(root, `${name}-saved`)]
  const code = await run(['train', join(root, 'job.json'), '--out', out, '--save', saved, ...words], io)
  const lines = readFileSync(join(out, 'metrics.jsonl'), 'utf8').trim().split('\n')
  return { code, ...said, out, saved, lines: lines.map(line => JSON.parse(line)) }
}

const stepsIn = (folder: string) =>
  readdirSync(folder)
    .filter(name => name.startsWith('step-'))
    .sort()

const comparing = ['--hash-every', '4', '--save-every', '2', '--keep', '1', '--fault', flip]

test('without --keep-going the run fails, the verified checkpoint stays, and the advice names it each time', async () => {
  const { code, err, saved, lines, out } = await trained('fails', comparing)
  equal(code, 1)
  match(
    err,
    /replicas differ since step 8: checkpoints after step 4 may be corrupt; resume from the checkpoint of step 4/,
  )
  // Those before the first mismatch are for whoever looks for the cause.
  deepEqual(stepsIn(saved), ['step-00000004', 'step-00000006', 'step-00000012'])
  const events = lines.filter(({ event }) => event === 'replicasDiffer')
  deepEqual(
    events.map(({ step, numbers }) => [step, numbers.equal]),
    [
      [8, 4],
      [12, 4],
    ],
  )
  for (const { advice } of events) match(advice, /^resume from the checkpoint of step 4,/)
  let said = ''
  const io = { ...processIo(), out: (text: string) => void (said += text), err: () => {}, colors: false }
  await run(['doctor', out], io)
  match(said, /step 8.*replicas|replicasDiffer/)
  ok(!/error at step 12/.test(said), said)
})

test('with --keep-going suspect checkpoints are removed, steps are taken again, and the run succeeds', async () => {
  const { code, err, saved, lines } = await trained('goes-on', [...comparing, '--keep-going', '--keep-every', '2'])
  equal(code, 0, err)
  deepEqual(
    stepsIn(saved),
    [2, 4, 6, 8, 10, 12].map(step => `step-${String(step).padStart(8, '0')}`),
  )
  const calm = await trained('calm', ['--save-every', '2'])
  for (const step of stepsIn(saved)) {
    const numbers = (folder: string) => readFileSync(join(folder, step, 'rank-00000.safetensors')).subarray(-64)
    deepEqual(numbers(saved), numbers(calm.saved), step)
  }
  equal(lines.filter(({ event }) => event === 'restart').length, 1)
  ok(!existsSync(join(saved, 'run.lock')))
})
