/** A job written for every framework that takes it and imported again: what comes back otherwise was named. */
import assert from 'node:assert/strict'
import { exportJob, importConfig, writers } from '../../src/interop/index.js'
import { type ForeignFramework, Job } from '../../src/plan/index.js'
import type { Subject } from './subject.js'

/** Fields that come back otherwise, as `section.field`. */
export function changedFields(job: Job, back: Readonly<Record<string, unknown>>): string[] {
  const again = Job.parse({
    ...back,
    model: back.model ?? job.model,
    training: { seq: job.training.seq, ...(back.training as object) },
  })
  return (['plan', 'training'] as const).flatMap(section => {
    const [ours, theirs]: Readonly<Record<string, unknown>>[] = [job[section], again[section]]
    return [...new Set([...Object.keys(ours), ...Object.keys(theirs)])]
      .filter(key => JSON.stringify(ours[key]) !== JSON.stringify(theirs[key]))
      .map(key => `${section}.${key}`)
  })
}

function returns(job: Job, to: ForeignFramework): boolean {
  const { files, given, unsaid, refused } = exportJob(job, to)
  for (const { path, message } of [...refused, ...unsaid]) {
    assert.ok(message.length > 0, `${to} names ${path} without a reason`)
    assert.doesNotMatch(message, /internal:/)
  }
  if (refused.length > 0) return false
  const { job: back, notes } = importConfig([...files.values()][0], given)
  assert.ok(back, `${to} cannot be imported again: ${JSON.stringify(notes.filter(({ kind }) => kind === 'refused'))}`)
  const named = unsaid.map(({ path }) => path)
  // Stages of equal layers may be written as a list; without a pipeline neither schedule nor chunks mean anything.
  const silent = job.plan.pp === 1 ? ['plan.layers', 'plan.schedule', 'plan.chunks'] : ['plan.layers']
  const lost = changedFields(job, back).filter(path => !named.includes(path) && !silent.includes(path))
  assert.deepEqual(lost, [], `${to}: lost without a word`)
  return true
}

export function exportsAndImports({ job }: Subject): string | undefined {
  const taken = (Object.keys(writers) as ForeignFramework[]).filter(to => returns(job, to))
  return taken.length === 0 ? 'no framework takes it' : undefined
}
