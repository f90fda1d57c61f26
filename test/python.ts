/** A Python that has torch, if there is one: LOCKSTEP_PYTHON, the repository's .venv, or python3. */
import { spawnSync } from 'node:child_process'

const hasTorch = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'

export const findPython = (): string | undefined =>
  [process.env.LOCKSTEP_PYTHON, '.venv/bin/python', 'python3']
    .filter(python => python !== undefined)
    .find(python => spawnSync(python, ['-c', hasTorch]).status === 0)
