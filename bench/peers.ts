/** Finding and starting those we race against. What is not there is skipped, with how to install it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Child } from './child.js'

/** This file runs from dist/bench. */
export const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const sources = join(root, 'bench/peers')
const built = join(root, 'dist/bench/peers')

export class Missing extends Error {}

function compile(name: string, compiler: string, flags: readonly string[], install: string): string {
  const program = join(built, name)
  mkdirSync(built, { recursive: true })
  try {
    execFileSync(compiler, ['-O2', '-march=native', '-o', program, join(sources, `${name}.c`), ...flags], {
      stdio: 'pipe',
    })
  } catch {
    throw new Missing(`${name} cannot be built: ${install}`)
  }
  return program
}

/** An OpenBLAS older than the CPU takes it for a very old one; then it has to be told. We race its fastest kernels. */
const coreTypes = process.arch === 'x64' ? ['SAPPHIRERAPIDS', 'COOPERLAKE', 'SKYLAKEX', 'ZEN', 'HASWELL'] : []

function startOpenblas(core?: string): Promise<Child> {
  const program = compile('openblas', 'cc', ['-lopenblas'], 'apt-get install libopenblas-dev')
  const given = core === undefined ? {} : { OPENBLAS_CORETYPE: core }
  return Child.start('OpenBLAS', { file: program, args: [], env: { OPENBLAS_NUM_THREADS: '1', ...given } })
}

export async function openblas(): Promise<Child> {
  if (process.env.OPENBLAS_CORETYPE) return startOpenblas()
  const tried: { core: string | undefined; seconds: number }[] = []
  for (const core of [undefined, ...coreTypes]) {
    const child = await startOpenblas(core)
    const runs = [1, 2, 3].map(() => child.askNumbers('time', 512, 512, 512, 0, 0, 0, 5))
    tried.push({ core, seconds: Math.min(...(await Promise.all(runs)).flat()) })
    await child.stop()
  }
  return startOpenblas(tried.reduce((best, one) => (one.seconds < best.seconds ? one : best)).core)
}

/** OpenBLAS with vectors of 128 bits, which is all that WebAssembly has. Other CPUs than x64 have nothing wider. */
export const narrowOpenblas = (): Promise<Child> => startOpenblas(process.arch === 'x64' ? 'NEHALEM' : undefined)

export function mpi(ranks: number): Promise<Child> {
  const install = 'apt-get install openmpi-bin libopenmpi-dev'
  const program = compile('mpi', 'mpicc', [], install)
  if (spawnSync('mpirun', ['--version']).status !== 0) throw new Missing(`mpirun is not there: ${install}`)
  const args = ['--allow-run-as-root', '--oversubscribe', '-n', String(ranks), program]
  return Child.start(`Open MPI, ${ranks} ranks`, { file: 'mpirun', args })
}

const has = (module: string): string =>
  `import importlib.util, sys; sys.exit(importlib.util.find_spec("${module}") is None)`

function python(module = 'torch'): string {
  const found = [process.env.LOCKSTEP_PYTHON, join(root, '.venv/bin/python'), 'python3']
    .filter(python => python !== undefined)
    .find(python => spawnSync(python, ['-c', has(module)]).status === 0)
  if (found === undefined) throw new Missing(`no Python with ${module}: pip install ${module}, or set LOCKSTEP_PYTHON`)
  return found
}

/** A program of bench/peers; one thread a rank, as torchrun sets it. */
export function torch(name: string, program: string, ...args: (string | number)[]): Promise<Child> {
  return Child.start(name, {
    file: python(),
    args: [join(sources, program), ...args.map(String)],
    env: { OMP_NUM_THREADS: '1' },
  })
}

/** What generates text from a Hugging Face folder. */
export const transformers = (folder: string): Promise<Child> =>
  Child.start('transformers', {
    file: python('transformers'),
    args: [join(sources, 'generate.py'), folder],
    env: { OMP_NUM_THREADS: '1' },
  })

/** Starts a peer, or says why it will not race. */
export async function unlessMissing<T>(start: () => Promise<T>, say: (reason: string) => void): Promise<T | undefined> {
  try {
    return await start()
  } catch (error) {
    if (!(error instanceof Missing)) throw error
    say(`skipped: ${error.message}`)
    return undefined
  }
}
