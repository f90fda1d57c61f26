/** Emitted programs of one job after the other, each run by ranks that are forked from a Python which has loaded torch. */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Job } from '../../src/plan/index.js'
import { anyJob, asked, conforms, emitMany, runsFor } from '../conformance.js'
import { ranksOf, steps } from '../emit-cases.js'
import { emittedFiles, type Programs, temporaryFolder, writeFiles } from '../emitted.js'
import { type Copy, Forking } from '../forked.js'

const [caseSeconds, limitMs] = [150, 180_000]

export class EmittedRuns {
  readonly #root = temporaryFolder()
  readonly #copies: Forking
  #runs = 0

  constructor(python: string) {
    this.#copies = new Forking(python)
  }

  /** Throws where the emitted program fails, stalls, or computes something else than the reference. */
  async conform(job: Job, programs: Programs): Promise<void> {
    const folder = join(this.#root, String(this.#runs++))
    try {
      writeFiles(join(folder, 'job'), emittedFiles(job, programs))
      const runs = runsFor(job, anyJob)
      const list = [{ title: 'job', folder: 'job', ranks: ranksOf(job), steps, runs: asked(runs) }]
      writeFileSync(join(folder, 'list.json'), JSON.stringify(list))
      const started = { cwd: folder, env: { CASE_SECONDS: String(caseSeconds) } }
      const { err } = await ended(await this.#copies.start([emitMany, join(folder, 'list.json')], started))
      const emitted = { folder: join(folder, 'job'), job, programs, complaints: err.slice(-2000) }
      for (const run of runs) conforms(emitted, run, anyJob)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }

  async close(): Promise<void> {
    await this.#copies.close()
    rmSync(this.#root, { recursive: true, force: true })
  }
}

/** A run that stalls is killed. */
async function ended(copy: Copy) {
  const limit = new AbortController()
  const late = setTimeout(limitMs, true, { signal: limit.signal }).catch(() => false)
  if ((await Promise.race([copy.done.then(() => false), late])) === true) copy.kill('SIGTERM')
  limit.abort()
  return copy.done
}
