/**
 * A Python that has torch, if there is one: LOCKSTEP_PYTHON, the repository's .venv, or python3. Where there must be
 * one (LOCKSTEP_REQUIRE_TORCH is set, as in CI), its absence is an error and no reason to skip.
 */
import { spawnSync } from 'node:child_process'

const hasTorch = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'

export function findPython(): string | undefined {
  const candidates = [process.env.LOCKSTEP_PYTHON, '.venv/bin/python', 'python3'].filter(python => python !== undefined)
  const found = candidates.find(python => spawnSync(python, ['-c', hasTorch]).status === 0)
  if (!found && process.env.LOCKSTEP_REQUIRE_TORCH)
    throw new Error(`LOCKSTEP_REQUIRE_TORCH is set, and none of ${candidates.join(', ')} has torch`)
  return found
}
