/** A Python that has torch, if there is one: LOCKSTEP_PYTHON, the repository's .venv, or python3. */
import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'

const hasTorch = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'

/** What a test that needs torch says when it is skipped. */
export const noPython = 'no Python with torch (set LOCKSTEP_PYTHON, or install torch for python3)'

/** Tensors of tests are small: threads would spend most of the time waiting for each other. */
export const oneThread = { ...process.env, OMP_NUM_THREADS: '1' }

/** Where LOCKSTEP_REQUIRE_TORCH is set (CI), a missing torch is a failure and not a skip. */
export function findPython(): string | undefined {
  const found = [process.env.LOCKSTEP_PYTHON, resolve('.venv/bin/python'), 'python3']
    .filter(python => python !== undefined)
    .find(python => spawnSync(python, ['-c', hasTorch]).status === 0)
  if (found === undefined && process.env.LOCKSTEP_REQUIRE_TORCH) throw new Error(noPython)
  return found
}
