/** The studio's server: built pages, and runs of this machine behind them. It listens to this machine alone. */
import { existsSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { error, ProblemsError } from '../../base/index.js'
import { refused } from '../../engine/native/run/phrases.js'
import { listening } from '../files/listening.js'
import type { Io } from '../io.js'
import { answerJson, prepare, Refused } from './answer.js'
import { type Guard, guardOf } from './guard.js'
import { routeOf } from './routes.js'
import { Runs } from './runs.js'
import { answerStatic } from './static.js'

export interface StudioOptions {
  /** 0: one that is free. */
  readonly port: number
  /** The folder of the built pages. */
  readonly root: string
  /** The job that was named, for the page to begin with. */
  readonly job?: { readonly path: string; readonly text: string }
}

export interface Studio {
  /** With the token in its fragment, which browsers send to no server. */
  readonly url: string
  readonly token: string
  readonly port: number
  readonly runs: Runs
  /** Stops the runs, each after its step, then the server. */
  close(): Promise<void>
}

export async function serveStudio({ port, root, job }: StudioOptions, io: Io): Promise<Studio> {
  if (!existsSync(root))
    throw new ProblemsError([
      error('studio/missing', '', `the pages of the studio are not built (${root})`, 'run npm run studio:build'),
    ])
  const runs = new Runs(process.cwd(), io)
  const server = createServer()
  await listening(server, { host: '127.0.0.1', port }, '--port')
  const { port: taken } = server.address() as AddressInfo // it listens on one
  const guard = guardOf(taken)
  server.on('request', (request, response) => void handle(request, response, { guard, root, runs, job, io }))
  return {
    url: `http://127.0.0.1:${taken}/#/?token=${guard.token}`,
    ...{ token: guard.token, port: taken, runs },
    async close() {
      await runs.end()
      await closed(server)
    },
  }
}

const closed = (server: Server): Promise<void> =>
  new Promise(resolve => {
    server.close(() => resolve())
    server.closeAllConnections()
  })

/** What requests are handled with. */
export interface Desk extends Pick<StudioOptions, 'root'> {
  readonly guard: Guard
  readonly runs: Runs
  readonly job: StudioOptions['job']
  readonly io: Io
}

async function handle(request: IncomingMessage, response: ServerResponse, desk: Desk): Promise<void> {
  prepare(response)
  try {
    await respond(request, response, desk)
  } catch (e) {
    fail(response, e, desk.io)
  }
}

async function respond(request: IncomingMessage, response: ServerResponse, desk: Desk): Promise<void> {
  const [path] = (request.url ?? '/').split('?')
  const method = request.method ?? 'GET'
  const route = routeOf(path)
  const refusal = route ? desk.guard.refuses(request) : desk.guard.refusesPage(request)
  if (refusal)
    throw new Refused(refusal.status, refusal.why, refusal.status === 401 ? [refused('', 'engine/failed/token')] : [])
  if (route) {
    const work = route.methods[method]
    if (work) return work({ request, response, desk, id: route.id })
    response.setHeader('Allow', Object.keys(route.methods).join(', '))
    throw new Refused(405, `${method} is not something that ${path} knows`)
  }
  if (method !== 'GET' && method !== 'HEAD') throw new Refused(405, `${method} is not something that pages know`)
  answerStatic(response, desk.root, path)
}

function fail(response: ServerResponse, e: unknown, io: Io): void {
  if (!(e instanceof Refused)) io.err(`studio: ${e instanceof Error ? e.message : String(e)}\n`)
  if (response.headersSent) return void response.end()
  const { status, message, problems } = e instanceof Refused ? e : new Refused(500, 'internal: see the terminal')
  answerJson(response, { message, problems }, status)
}
