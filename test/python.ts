/** Where Python with PyTorch is, if anywhere: tests that need it skip, and say so, where it is not. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'

let found: string | null | undefined

export function findPython(): string | undefined {
  if (found === undefined) found = candidates().find(importsTorch) ?? null
  return found ?? undefined
}

export const noPython = 'no Python with torch: set LOCKSTEP_PYTHON'

const candidates = (): string[] =>
  [process.env.LOCKSTEP_PYTHON, '.venv/bin/python', 'python3'].filter(
    path => path !== undefined && (!path.includes('/') || existsSync(path)),
  ) as string[] // filtered just above

const importsTorch = (python: string): boolean =>
  spawnSync(python, ['-c', 'import torch'], { stdio: 'ignore', timeout: 120_000 }).status === 0
