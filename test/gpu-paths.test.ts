/**
 * What emitted programs do only on a GPU, on a simulated one (bench/gpu/simulated): Triton's kernels in its interpreter, compiled updates and
 * segments, CUDA graphs, grouped and fp8 products, fused attention, copies on streams, collectives with NCCL's rules. And the script that runs
 * all of it on a real GPU (bench/gpu/conformance.py): an item that dies or hangs fails alone. Triton is on pip for Linux; CI installs it.
 */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe } from 'node:test'
import { fileURLToPath } from 'node:url'
import { finished, temporaryFolder } from './emitted.js'
import { type Family, family, later } from './families.js'
import { type GpuJob, gpuJobs, paired, writeGpuFolder } from './gpu-jobs.js'
import { findPython, noPython } from './python.js'

const python = findPython()
const script = fileURLToPath(new URL('../../bench/gpu/conformance.py', import.meta.url))

const findsTriton = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("triton") is None)'
const triton = python !== undefined && spawnSync(python, ['-c', findsTriton]).status === 0
const noTriton = 'no Python with triton (pip install triton)'
if (python && !triton && process.env.LOCKSTEP_REQUIRE_TRITON) throw new Error(noTriton)
const skip = python ? (triton ? false : noTriton) : noPython

const conformance = (folder: string, ...args: string[]) =>
  finished(python!, [script, folder, '--report', join(folder, 'reports'), ...args]).done

interface Report {
  readonly commit: string
  readonly device: string
  readonly rows: readonly { readonly name: string; readonly passed: boolean; readonly said: string }[]
}

const reportOf = (folder: string): Report => {
  const name = readdirSync(join(folder, 'reports')).find(name => name.endsWith('.json'))!
  return JSON.parse(readFileSync(join(folder, 'reports', name), 'utf8'))
}

/** By name, what is wrong with each item: "" where it passed. */
async function simulated(folder: string, ...args: string[]): Promise<(name: string) => string> {
  const { err } = await conformance(folder, '--device', 'simulated', '--seconds', '600', ...args)
  const wrong = new Map(reportOf(folder).rows.map(({ name, passed, said }) => [name, passed ? '' : said]))
  return name => wrong.get(name) ?? `it was not run\n${err.slice(-2000)}`
}

const root = temporaryFolder()
after(() => rmSync(root, { recursive: true, force: true }))

const tiny = gpuJobs.find(({ title }) => title === 'adamw, ZeRO 1, bf16')!

/** Jobs in one of their ways, each a case; those that this run has go to one Python. */
function programs(way: 'written' | 'recorded' | 'compiled', jobs: readonly GpuJob[], tested: Family): void {
  describe(`emitted programs on a simulated GPU compute what the reference computes: ${way}`, () => {
    const folder = join(root, way)
    const taken: GpuJob[] = []
    let wrong: (name: string) => string
    before(async () => {
      if (skip || taken.length === 0) return
      writeGpuFolder(folder, taken, 'tests')
      wrong = await simulated(folder, '--family', 'optimizers', 'recorded', '--ways', way)
    })
    for (const job of jobs) {
      const name = `${job.title} (${way})`
      if (tested(name, { skip }, () => equal(wrong(name), ''))) taken.push(job)
    }
  })
}
programs('written', paired, family('simulated GPU: optimizers', 30))
programs(
  'recorded',
  gpuJobs.filter(job => job.family === 'recorded'),
  family('simulated GPU: CUDA graphs', Infinity),
)
// Tracing takes most of a minute.
programs(
  'compiled',
  paired.filter((_, i) => i % 12 === 3),
  family('simulated GPU: compiled', Infinity),
)

describe('helpers that take another way on a GPU compute what they compute on a CPU', () => {
  const folder = join(root, 'helpers')
  const listed = skip ? '' : spawnSync(python!, [script, '--helpers'], { encoding: 'utf8' }).stdout
  const taken: string[] = []
  let wrong: (name: string) => string
  before(async () => {
    if (taken.length === 0) return
    writeGpuFolder(folder, [tiny], 'tests')
    writeFileSync(join(folder, 'names'), taken.join('\n'))
    wrong = await simulated(folder, '--family', 'helpers', '--names', join(folder, 'names'))
  })
  const tested = family('simulated GPU: helpers', 12)
  for (const name of listed.split('\n').filter(Boolean))
    if (tested(name, () => equal(wrong(name), ''))) taken.push(name)
})

describe('the script that runs them', { skip: python ? false : noPython }, () => {
  later('counts what it ran, and writes a report', async () => {
    const folder = join(root, 'cpu')
    writeGpuFolder(folder, [tiny], 'abc1234')
    const { code, out, err } = await conformance(folder, '--device', 'cpu')
    equal(code, 0, out + err)
    match(out, /^optimizers: planned 2, run 1, passed 1, skipped 1 \(needs a GPU, or a simulated one\)$/m)
    const { commit, device, rows } = reportOf(folder)
    deepEqual([commit, device, rows.length], ['abc1234', 'cpu', 1])
    const markdown = readdirSync(join(folder, 'reports')).find(name => name.endsWith('.md'))!
    match(
      readFileSync(join(folder, 'reports', markdown), 'utf8'),
      /\| optimizers \| planned 2, run 1, passed 1, skipped 1/,
    )
  })

  later('an item that dies, hangs or is wrong fails alone', async () => {
    const folder = join(root, 'broken')
    writeGpuFolder(folder, [tiny, tiny, tiny, tiny], 'tests')
    const breaks: readonly (readonly [file: string, word: string, instead: string])[] = [
      ['job0/stage0.py', 'def ', 'import os; os.kill(os.getpid(), 9)\ndef '],
      ['job1/stage0.py', 'def ', 'import time; time.sleep(1000)\ndef '],
      ['job2/expected.json', '"loss":', '"loss":1'],
    ]
    for (const [file, word, instead] of breaks) {
      const text = readFileSync(join(folder, file), 'utf8')
      writeFileSync(join(folder, file), text.replace(word, instead))
    }
    const { code, out } = await conformance(folder, '--device', 'cpu', '--seconds', '60')
    equal(code, 1)
    match(out, /^optimizers: planned 8, run 4, passed 1, skipped 4/m)
    ok(/killed by signal 9/.test(out) && /took longer than 60 s/.test(out), out)
  })
})
