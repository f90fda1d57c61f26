/** lockstep studio: plan, run and learn in the browser, with the runs of this machine. */
import { fileURLToPath } from 'node:url'
import { error, ProblemsError } from '../../base/index.js'
import type { Io } from '../io.js'
import { openBrowser } from '../studio/opening.js'
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
  if (json) io.out(`${JSON.stringify({ url: studio.url, port: studio.port, token: studio.token })}\n`)
  else
    io.out(
      `The studio: ${studio.url}\nThe link has the token: keep it to yourself. Ctrl-C ends the studio and its runs.\n`,
    )
  const forget = open && !json && io.terminal() ? openBrowser(studio.url, io) : undefined
  const code = await interrupted
  const live = studio.runs.all.filter(({ isLive }) => isLive).length
  if (live > 0)
    io.err(`stopping ${live === 1 ? 'a run' : `${live} runs`}, each after its step; Ctrl-C again stops at once\n`)
  await studio.close()
  forget?.()
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
