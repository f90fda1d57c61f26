/** Checkpoints that are written while the run goes on: the same bytes, and no step waits for a disk that is full. */
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { error, FaultBook, type Files, noRoom, ProblemsError, parseFaults } from '../src/base/index.js'
import { memoryFiles } from '../src/base/memory-files.js'
import { runSaving } from '../src/cli/files/run-saving.js'
import { processIo } from '../src/cli/io.js'
import { nodeFiles, startWriter } from '../src/node/index.js'
import {
  beginningOf,
  damageEvents,
  type Keep,
  newestGood,
  openCheckpoints,
  type Session,
  savedEvents,
  startSession,
  syntheticOf,
  type Writer,
} from '../src/train/index.js'
import { family, test } from './families.js'
import { jobOf } from './jobs.js'

const root = mkdtempSync(join(tmpdir(), 'lockstep-beside-'))
after(() => rmSync(root, { recursive: true, force: true }))
const at = (name: string) => join(root, name)

const job = jobOf('mlp', { dp: 2, zero: 1 }, { steps: 9 })
const started = (resume?: string, files: Files = nodeFiles()): Promise<Session> =>
  startSession(job, syntheticOf(job), {
    kernels: 'reference',
    beginning: beginningOf(resume === undefined ? {} : { resume }, files),
  })
const contents = (folder: string) =>
  new Map(readdirSync(folder).map(name => [name, readFileSync(join(folder, name)).toString('base64')]))

test('written by a thread while the next step is taken: byte for byte what is written while the run stands still', async () => {
  const session = await started()
  await session.step()
  const [now, beside] = ['now', 'beside'].map(name =>
    openCheckpoints(at(name), session, {
      ...{ files: nodeFiles(), run: 'run' },
      ...(name === 'beside' && { writer: startWriter() }),
    }),
  )
  const written = now.save()
  const path = await beside.start()
  const [before] = [session.trainer.scalars()]
  await session.step()
  ok(before.taken !== session.trainer.scalars().taken)
  const [{ problems, step }] = await beside.finish()
  deepEqual([problems, step], [[], 1])
  deepEqual(contents(path), contents(written))
  // The memory of the first copy is used again.
  await beside.start()
  deepEqual((await beside.finish())[0].problems, [])
  deepEqual(contents(at('beside/step-00000002')), contents(now.save()))
  now.close()
  beside.close()
  await session.stop()
})

/** A thread that has written, or failed, when it is told to. */
function heldWriter(): Writer & { end(problem?: string): void; orders: number } {
  let settle: ((problem?: string) => void) | undefined
  return {
    orders: 0,
    isFree: async () => settle === undefined,
    write(): Promise<void> {
      this.orders++
      return new Promise((resolve, reject) => {
        settle = problem => {
          settle = undefined
          if (problem === undefined) resolve()
          else reject(new ProblemsError([error('run/write', '', problem)]))
        }
      })
    },
    end: problem => settle?.(problem),
    stop: async () => {},
  }
}

test('one at a time: the next is dropped where it takes too long; a full disk is said, and the run goes on to the next', async () => {
  const [session, writer] = [await started(), heldWriter()]
  const folder = openCheckpoints('saved', session, { files: memoryFiles(), run: 'run', writer })
  const saving = runSaving(folder, { every: 1, steps: 9 }, { ...processIo(), progressColumns: () => undefined })
  const next = async () => (await saving.after(await session.step(), false)).events ?? []
  deepEqual(await next(), [])
  const [dropped] = await next()
  match(dropped.message, /was not written: the previous checkpoint is still being written/)
  equal(dropped.event, 'checkpointDropped')
  writer.end('cannot write saved/step-00000001: no space left on the disk')
  await new Promise(setImmediate)
  const [failed] = await next()
  deepEqual([failed.event, failed.severity, failed.step], ['saveFailed', 'warning', 1])
  match(failed.advice!, /the run continues/)
  equal(writer.orders, 2)
  writer.end('cannot write it: no space left on the disk')
  await rejects(saving.finish(), /no space left on the disk/, 'of the last one it is an error')
  await session.stop()
})

const byKeep = family('asynchronous checkpoints', 2)
for (const [keep, left] of [
  [undefined, '1 2 3 4 5 6'],
  [{ last: 2 }, '5 6'],
  [{ last: 1, every: 3 }, '3 6'],
  [{ last: 2, every: 2 }, '2 4 5 6'],
] as const satisfies readonly (readonly [Keep | undefined, string])[])
  byKeep(
    `--keep ${keep ? JSON.stringify(keep) : 'is not given'}: of six checkpoints ${left} are left, by two runs of one line`,
    async () => {
      const files = memoryFiles()
      for (const resume of [undefined, 'saved']) {
        const session = await started(resume, files)
        const run = `run of ${resume ?? 'nothing'}`
        const folder = openCheckpoints('saved', session, { files, run, ...(keep && { keep }) })
        for (let i = 0; i < 3; i++) {
          await session.step()
          folder.save()
        }
        folder.close()
        await session.stop()
      }
      const steps = new Set(files.list('saved')!.map(path => String(Number(/step-(\d+)\//.exec(path)![1]))))
      equal([...steps].join(' '), left)
    },
  )

/** Files of a disk with room for so many shards. */
function smallDisk(room: number): Files {
  const files = memoryFiles()
  const shards = () => (files.list('saved') ?? []).filter(path => /rank-\d+\.safetensors$/.test(path)).length
  return {
    ...files,
    write(path, content) {
      if (/rank-/.test(path) && shards() >= room) throw new Error(noRoom)
      files.write(path, content)
    },
  }
}

for (const [keep, room, left] of [
  [{ last: 3 }, 6, '4 5 6'],
  [{ last: 2 }, 5, '5 6'],
  [{ last: 1 }, 3, '1'],
  [undefined, 6, '1 2 3'],
] as const satisfies readonly (readonly [Keep | undefined, number, string])[])
  test(`a disk with room for ${room} shards, two a checkpoint, --keep ${keep?.last ?? 'all'}: of six checkpoints ${left} are left`, async () => {
    const [files, session] = [smallDisk(room), await started()]
    const folder = openCheckpoints('saved', session, { files, run: 'run', ...(keep && { keep }) })
    for (let i = 0; i < 6; i++) {
      await session.step()
      await folder.start()
    }
    const failed = folder.ended().filter(({ problems }) => problems.length > 0)
    folder.close()
    const steps = new Set(files.list('saved')!.map(path => Number(/step-(\d+)\//.exec(path)![1])))
    equal([...steps].join(' '), left)
    equal(failed.length, keep && room > 3 ? 0 : 6 - steps.size)
    await session.stop()
  })

test('nothing is removed where the newest is not what was written, nor what another run wrote', async () => {
  const files = memoryFiles()
  const session = await started()
  await session.step()
  const other = openCheckpoints('saved', session, { files, run: 'other' })
  other.save()
  other.close()
  const bad: Files = {
    ...files,
    readBytes: (path, begin, end) =>
      files.readBytes(path, begin, end).map(byte => (path.includes('3/rank-00001') ? byte ^ 1 : byte)),
  }
  const folder = openCheckpoints('saved', session, { files: bad, run: 'run', keep: { last: 1 } })
  const events = []
  for (let i = 0; i < 3; i++) {
    await session.step()
    await folder.start()
    events.push(
      folder
        .ended()
        .flatMap(savedEvents)
        .map(({ event }) => event),
    )
  }
  deepEqual(events, [[], ['checkpointDamaged'], []])
  const { good, damaged } = newestGood('saved', bad)
  deepEqual([good?.path, damaged], ['saved/step-00000004', []])
  ok(files.exists('saved/step-00000001'), 'the other run’s')
  folder.close()
  await session.stop()
})

test('faults of disks: the checkpoint of step 2 finds no room, that of step 4 is damaged; the run that resumes names it and takes step 3', async () => {
  const { faults } = parseFaults(['full-disk:step=2', 'damage:file=rank-00001*,step=4'])
  const options = { files: nodeFiles(), run: 'run', writer: startWriter(), faults: new FaultBook(faults) }
  const session = await started()
  const folder = openCheckpoints(at('faulty'), session, options)
  const events = []
  for (let i = 0; i < 4; i++) {
    await session.step()
    await folder.start()
    events.push(...(await folder.finish()).flatMap(savedEvents))
  }
  folder.close()
  await session.stop()
  deepEqual(
    events.map(({ step, event }) => [step, event]),
    [[2, 'saveFailed']],
  )
  match(events[0].message, /cannot write \S+step-00000002\.run\.partial\S+: no space left on the disk/)
  deepEqual(readdirSync(at('faulty')), ['step-00000001', 'step-00000003', 'step-00000004'])
  const resumed = await started(at('faulty'))
  const [{ message }] = damageEvents(resumed.beginning!)
  match(message, /step-00000004: rank-00001\.safetensors \(written by rank 1\): tensor \S+ is corrupt/)
  const again = openCheckpoints(at('faulty'), resumed, { ...options, run: 'again', writer: undefined })
  match(again.note!, /step-00000004, which is corrupt, was renamed to \S+step-00000004\.again\.damaged/)
  again.close()
  equal((await resumed.step()).step, 4)
  await resumed.stop()
})

test('what killed runs were writing is removed by the run that takes the folder over, whichever they were; a folder nobody may write to is refused', async () => {
  const [files, session] = [memoryFiles(), await started()]
  files.write('saved/run.lock', JSON.stringify({ run: 'killed', pid: 2, host: 'memory', since: 'then' }))
  files.write('saved/step-00000001.killed.partial/rank-00000.safetensors', 'half')
  files.write('saved/step-00000001.another.partial/rank-00000.safetensors', 'half')
  const gone = { ...files, hasEnded: () => true }
  const folder = openCheckpoints('saved', session, { files: gone, run: 'run' })
  deepEqual(files.list('saved'), ['saved/run.lock'])
  folder.close()
  mkdirSync(at('shut'))
  const shut: Files = { ...nodeFiles(), create: () => failing('the disk is read-only') }
  await rejects(async () => openCheckpoints(at('shut'), session, { files: shut, run: 'run' }), /the disk is read-only/)
  await session.stop()
})

function failing(message: string): never {
  throw new Error(message)
}
