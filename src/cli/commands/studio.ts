/** lockstep studio: plan, run and learn in the browser, with the runs of this machine. */
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { error, ProblemsError } from '../../base/index.js'
import type { Io } from '../io.js'
import { serveStudio } from '../studio/server.js'

export interface StudioCommandOptions {
  readonly port: number
  readonly open: boolean
  readonly json?: boolean
  /** The folder of the built pages; where the package has them if not given. */
  readonly root?: string
}

const built = fileURLToPath(new URL('../../../studio/page', import.meta.url))

export async function studioCommand(path: string | undefined, options: StudioCommandOptions, io: Io): Promise<number> {
  const { port, open, json, root = built } = options
  const job = path === undefined ? undefined : { path, text: readJob(path, io) }
  const interrupted = new Promise<number>(resolve => void io.onInterrupt(resolve))
  const studio = await serveStudio({ port, root, ...(job && { job }) }, io)
  if (json) io.out(`${JSON.stringify({ url: studio.url, port: studio.port })}\n`)
  else
    io.out(
      `The studio: ${studio.url}\nThe link holds its key: keep it to yourself. Ctrl-C ends the studio and its runs.\n`,
    )
  if (open && !json && io.terminal()) openBrowser(studio.url, io)
  const code = await interrupted
  const live = studio.runs.all.filter(({ isLive }) => isLive).length
  if (live > 0)
    io.err(`stopping ${live === 1 ? 'a run' : `${live} runs`}, each after its step; Ctrl-C again stops at once\n`)
  await studio.close()
  // Ctrl-C is how it is meant to end.
  return code === 130 ? 0 : code
}

function readJob(path: string, io: Io): string {
  try {
    return io.read(path)
  } catch (e) {
    const why = e instanceof Error ? e.message : String(e)
    throw new ProblemsError([error('file/unreadable', '', `cannot read ${path}: ${why}`)])
  }
}

/** Where there is no browser the link is enough. */
function openBrowser(url: string, { env }: Io): void {
  const [command, ...words] =
    process.platform === 'darwin' ? ['open'] : process.platform === 'win32' ? ['cmd', '/c', 'start', ''] : ['xdg-open']
  const hasScreen = process.platform !== 'linux' || env.DISPLAY !== undefined || env.WAYLAND_DISPLAY !== undefined
  if (!hasScreen) return
  const opening = spawn(command, [...words, url], { stdio: 'ignore', detached: true })
  opening.on('error', () => {})
  opening.unref()
}
