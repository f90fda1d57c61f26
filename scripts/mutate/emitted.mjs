/**
 * Mutants of the generated runtime: each is judged by the conformance jobs whose ranks execute the changed line, the quickest
 * first, against what the same jobs compute without the change.
 */
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const runtime = 'src/emit/runtime'
const covered = fileURLToPath(new URL('covered.py', import.meta.url))
/** Jobs that judge a mutant, and how far losses and parameters may be off, as test/conformance.ts has it for f64. */
const [mostJobs, bound] = [6, 1e-10]

const load = (root, name) => import(pathToFileURL(join(root, 'dist/test', `${name}.js`)).href)

/** What a job computed, without what it took. */
const computed = ({ records, heldOut, parameters }) => ({
  losses: records.map(({ loss, gradientNorm, counted }) => [loss, gradientNorm, counted]),
  heldOut,
  parameters,
})

function resultIn(folder) {
  const file = join(folder, 'result.json')
  return existsSync(file) ? computed(JSON.parse(readFileSync(file, 'utf8')).f64) : undefined
}

/** The same numbers at the same places. */
function isNear(a, b) {
  if (typeof a === 'number' && typeof b === 'number') return Math.abs(a - b) <= bound * Math.max(1, Math.abs(a))
  if (a === null || typeof a !== 'object' || typeof b !== 'object' || b === null) return a === b
  return Object.keys(a).every(key => isNear(a[key], b[key]))
}

export class EmittedJobs {
  #jobs = []
  #root
  #forking
  #folder = mkdtempSync(join(tmpdir(), 'lockstep-mutants-'))
  #runs = 0

  /** Emits the conformance jobs, and runs each as it is; those that fail so judge nothing. */
  static async start(root, python) {
    const jobs = new EmittedJobs()
    jobs.#root = root
    const { Forking } = await load(root, 'forked')
    jobs.#forking = new Forking(python)
    const [{ emitCases, ranksOf, steps }, { emittedFiles, programsOf, writeFiles }] = await Promise.all([
      load(root, 'emit-cases'),
      load(root, 'emitted'),
    ])
    for (const [i, { title, job }] of emitCases.entries()) {
      const folder = join(jobs.#folder, `job${i}`)
      const files = Object.entries(emittedFiles(job, programsOf(job)))
      writeFiles(folder, Object.fromEntries(files.filter(([name]) => !name.startsWith('runtime/'))))
      await jobs.#add({ title, folder, ranks: ranksOf(job), steps })
      if (i % 25 === 24) console.error(`${i + 1} of ${emitCases.length} emitted jobs have run`)
    }
    jobs.#jobs.sort((a, b) => a.ms - b.ms)
    return jobs
  }

  async #add(job) {
    const lines = mkdtempSync(join(this.#folder, 'lines'))
    const begin = performance.now()
    const result = await this.#run(job, join(this.#root, runtime), lines)
    const found = {}
    for (const name of readdirSync(lines))
      for (const [file, numbers] of Object.entries(JSON.parse(readFileSync(join(lines, name), 'utf8'))))
        found[file] = new Set([...(found[file] ?? []), ...numbers])
    if (result) this.#jobs.push({ ...job, ms: performance.now() - begin, result, lines: found })
  }

  /** The result of a job with the runtime of a folder; undefined if it fails. `lines`: a folder for what its ranks execute. */
  async #run({ title, folder: source, ranks, steps }, from, lines) {
    const folder = join(this.#folder, `run${this.#runs++}`)
    cpSync(source, join(folder, 'job'), { recursive: true })
    cpSync(from, join(folder, 'job/runtime'), { recursive: true, filter: name => !/__pycache__/.test(name) })
    const list = join(folder, 'list.json')
    writeFileSync(list, JSON.stringify([{ title, folder: 'job', ranks, steps, runs: [['f64', false]] }]))
    const args = [join(this.#root, 'test/emit_many.py'), list]
    const env = { CASE_SECONDS: '40' }
    await (await this.#forking.start(lines ? [covered, ...args, lines] : args, { cwd: folder, env })).done
    const result = resultIn(join(folder, 'job'))
    rmSync(folder, { recursive: true, force: true })
    return result
  }

  /** The title of the first job that notices it; null where none does, undefined where none executes the line. */
  async judge({ source, start, end, to, line }) {
    const jobs = this.#jobs.filter(({ lines }) => lines[basename(source)]?.has(line)).slice(0, mostJobs)
    if (jobs.length === 0) return undefined
    const changed = join(this.#folder, 'changed')
    cpSync(join(this.#root, runtime), changed, { recursive: true })
    const text = readFileSync(join(this.#root, source))
    const file = join(changed, source.slice(runtime.length + 1))
    writeFileSync(file, Buffer.concat([text.subarray(0, start), Buffer.from(to), text.subarray(end)]))
    try {
      for (const job of jobs) {
        const result = await this.#run(job, changed)
        if (!result || !isNear(job.result, result)) return job.title
      }
      return null
    } finally {
      rmSync(changed, { recursive: true, force: true })
    }
  }

  async close() {
    await this.#forking.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
