/** The ranks of an emitted folder as processes of this machine, and what they say. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createInterface } from 'node:readline'
import { error, ProblemsError } from '../../base/index.js'
import type { Io } from '../io.js'

const hasTorch = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'

/** A Python that has torch: LOCKSTEP_PYTHON, the folder's .venv, or python3. */
export function pythonWithTorch(io: Io): string {
  const candidates = [io.env.LOCKSTEP_PYTHON, '.venv/bin/python', 'python3'].filter(python => python !== undefined)
  const found = candidates.find(python => spawnSync(python, ['-c', hasTorch]).status === 0)
  if (found !== undefined) return found
  throw new ProblemsError([
    error(
      'launch/python',
      '',
      'there is no Python with torch here',
      'install torch for python3, or set LOCKSTEP_PYTHON',
    ),
  ])
}

export interface Torchrun {
  /** Its exit code; null where a signal ended it. */
  readonly done: Promise<number | null>
  /** Ends every rank. A second time, at once. */
  stop(): void
}

export interface Listeners {
  line(text: string): void
  complaint(text: string): void
}

export interface Command {
  readonly folder: string
  readonly ranks: number
  /** What runtime/torchrun.py is told beside torchrun, and what train.py is. */
  readonly own: readonly string[]
  readonly args: readonly string[]
}

export function startTorchrun(python: string, { folder, ranks, own, args }: Command, listeners: Listeners): Torchrun {
  // The option has an underscore: PyTorch 1.13 knows no other name.
  const command = ['-m', 'runtime.torchrun', ...own, '--standalone', `--nproc_per_node=${ranks}`, 'train.py', ...args]
  // A group of its own: Ctrl-C reaches us, and we tell them.
  const child = spawn(python, command, {
    cwd: folder,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, OMP_NUM_THREADS: process.env.OMP_NUM_THREADS ?? '1', TORCH_CPP_LOG_LEVEL: 'ERROR' },
  })
  createInterface({ input: child.stdout }).on('line', text => listeners.line(text))
  createInterface({ input: child.stderr }).on('line', text => listeners.complaint(text))
  const forget = endingWithUs(child)
  const done = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', code => {
      forget()
      resolve(code)
    })
  })
  let told = false
  return {
    done,
    stop() {
      signalGroup(child, told ? 'SIGKILL' : 'SIGTERM')
      told = true
    },
  }
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // It is gone already.
  }
}

/** However we end, the ranks do not stay behind. */
function endingWithUs(child: ChildProcess): () => void {
  const end = () => signalGroup(child, 'SIGKILL')
  process.once('exit', end)
  return () => void process.removeListener('exit', end)
}
