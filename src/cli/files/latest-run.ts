/** Where runs go by default, and the link to the newest one, which commands take that are given no run. */
import { basename, dirname, extname, join } from 'node:path'
import type { Job } from '../../plan/index.js'
import type { Io } from '../io.js'

const folder = 'runs'

export const latestRun = join(folder, 'latest')

/** A folder that does not exist yet: runs/2026-11-18-gpt, or runs/2026-11-18-gpt-2. */
export function freeFolder({ name }: Job, jobPath: string, io: Io): string {
  const stem = (name ?? basename(jobPath, extname(jobPath))).replace(/[^\w.-]+/g, '-').replace(/^[.-]+/, '') || 'run'
  const dated = join(folder, `${dateOf(io.now())}-${stem}`)
  for (let i = 1; ; i++) {
    const path = i === 1 ? dated : `${dated}-${i}`
    if (!io.exists(path)) return path
  }
}

/** The day here, as 2026-11-18. */
const dateOf = (time: Date): string =>
  [time.getFullYear(), time.getMonth() + 1, time.getDate()].map(part => String(part).padStart(2, '0')).join('-')

/** A run with a folder elsewhere (`--out`) is not linked. */
export function markLatest(path: string, io: Io): void {
  if (dirname(path) === folder) io.link(latestRun, basename(path))
}
