/**
 * Loads that never ended. While a checkpoint is loaded, a file beside it (`step-00000100.loading`) has a line about the
 * process that does; a process that is killed by what it loads leaves its line. Emitted programs keep the same file
 * (src/emit/runtime/loading.py).
 */
import type { Files, ProcessName } from '../base/index.js'

const markOf = (path: string): string => `${path.replace(/[/\\]+$/, '')}.loading`

/** Processes of this host that have ended while they loaded it. */
export function timesCrashed(path: string, files: Files): number {
  return linesOf(path, files).filter(line => {
    const loader = parsed(line)
    return loader?.host === files.process.host && files.hasEnded(loader)
  }).length
}

/** Marks a load. Returns what to call when it has ended, well or not. Where nothing can be written, nothing is remembered. */
export function markLoad(path: string, files: Files): () => void {
  const quietly = (work: () => void) => {
    try {
      work()
    } catch {}
  }
  quietly(() => files.append(markOf(path), `${JSON.stringify(files.process)}\n`))
  return () => quietly(() => files.remove(markOf(path)))
}

function linesOf(path: string, files: Files): string[] {
  try {
    return files.exists(markOf(path)) ? files.read(markOf(path)).split('\n') : []
  } catch {
    return []
  }
}

function parsed(line: string): ProcessName | undefined {
  try {
    const { host, pid, born } = JSON.parse(line)
    return { host: String(host), pid: Number(pid), ...(typeof born === 'string' && { born }) }
  } catch {
    return undefined
  }
}
