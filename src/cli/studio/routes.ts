/** What a page may ask of the server beside its files. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { basename, dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { archiveOf } from '../../checkpoint/index.js'
import { thisHost } from '../../node/index.js'
import type { Io } from '../io.js'
import { answer, answerFile, answerJson, Refused } from './answer.js'
import { binaryOf } from './binary.js'
import { streamRun } from './events.js'
import { RunRequest } from './messages.js'
import type { Run } from './runs.js'
import type { Desk } from './server.js'

interface Asked {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly desk: Desk
  /** Of the run, where the path names one. */
  readonly id: string
}

type Work = (asked: Asked) => void | Promise<void>
type Methods = Readonly<Record<string, Work>>

const withRun =
  (work: (run: Run, asked: Asked) => void | Promise<void>): Work =>
  asked =>
    work(asked.desk.runs.of(asked.id), asked)

/** By what follows the id. */
const ofRun: Readonly<Record<string, Methods>> = {
  '': {
    GET: withRun((run, { response }) => answerJson(response, run.summary)),
    DELETE: withRun(async (run, { response }) => {
      await run.stop()
      answerJson(response, run.summary)
    }),
  },
  events: { GET: withRun((run, { request, response, desk }) => streamRun(request, response, run, desk.io)) },
  spans: { GET: withRun(answerSpans) },
  metrics: { GET: withRun((run, asked) => answerOwn(run, asked, 'metrics.jsonl')) },
  faults: {
    POST: withRun(async (run, { request, response }) => {
      const { fault } = await bodyOf(request, FaultRequest)
      run.inject(fault)
      answerJson(response, { fault }, 202)
    }),
  },
  'metrics.jsonl': { GET: withRun((run, asked) => answerOwn(run, asked, 'metrics.jsonl')) },
  'trace.json': {
    GET: withRun(async (run, asked) => {
      if (run.state === 'running') await run.keep('trace', join(run.folder, 'trace.json'))
      answerOwn(run, asked, 'trace.json')
    }),
  },
  'job.yaml': { GET: withRun((run, asked) => answerOwn(run, asked, 'job.yaml')) },
  'checkpoint.tar': { GET: withRun(answerCheckpoint) },
}

const ofAll: Readonly<Record<string, Methods>> = {
  '/runs': {
    GET: ({ response, desk }) => answerJson(response, { runs: desk.runs.all.map(({ summary }) => summary) }),
    POST: async ({ request, response, desk }) => {
      const run = await desk.runs.start(await bodyOf(request, RunRequest))
      answerJson(response, run.summary, 201)
    },
  },
  '/tickets': {
    POST: async ({ request, response, desk }) => {
      const { path } = await bodyOf(request, TicketRequest)
      if (!routeOf(path)) throw new Refused(404, `there is no ${path} here`)
      answerJson(response, { href: desk.guard.ticket(path) }, 201)
    },
  },
  '/machine': {
    GET: ({ response, desk }) => answerJson(response, { ...thisHost(), folder: process.cwd(), job: desk.job ?? null }),
  },
}

/** Undefined: it is a file's. */
export function routeOf(path: string): { readonly methods: Methods; readonly id: string } | undefined {
  if (Object.hasOwn(ofAll, path)) return { methods: ofAll[path], id: '' }
  const [, id, what = ''] = /^\/runs\/(\d{1,9})(?:\/([a-z.]+))?$/.exec(path) ?? []
  return id !== undefined && Object.hasOwn(ofRun, what) ? { methods: ofRun[what], id } : undefined
}

const TicketRequest = z.strictObject({ path: z.string().max(500) })
const FaultRequest = z.strictObject({ fault: z.string().min(1).max(500) })

const mostBytes = 2 ** 20

async function bodyOf<T>(request: IncomingMessage, schema: z.ZodType<T>): Promise<T> {
  if (!/^application\/json\b/.test(request.headers['content-type'] ?? '')) throw new Refused(415, 'send JSON')
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length
    if (bytes <= mostBytes) parts.push(part) // the rest is read and dropped: who is answered too early hears nothing
  }
  if (bytes > mostBytes) throw new Refused(413, 'a request has 1 MiB at most')
  const { data, error } = schema.safeParse(jsonOf(Buffer.concat(parts).toString('utf8')))
  if (error) throw new Refused(400, `the request is not as it should be:\n${z.prettifyError(error)}`)
  return data as T // parsed
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Refused(400, 'the request is no JSON')
  }
}

async function answerSpans(run: Run, { response }: Asked): Promise<void> {
  const view = await run.lastView()
  if (!view) return void response.writeHead(204).end() // no step has been measured yet
  answer(response, { type: 'application/octet-stream', body: binaryOf(view) })
}

/** A file of the run folder. */
function answerOwn(run: Run, { response, desk: { io } }: Asked, name: string): void {
  const path = join(run.folder, name)
  if (!io.exists(path)) throw new Refused(404, `the run has no ${name} yet`)
  const type = name.endsWith('.json') ? 'application/json' : 'text/plain; charset=utf-8'
  answerFile(response, `${basename(run.folder)}-${name}`, { type, body: io.readBytes(path) })
}

/** Of a run that goes on, one that is written for whoever asks, and then removed. */
async function answerCheckpoint(run: Run, asked: Asked): Promise<void> {
  if (run.state !== 'running') return answerTar(run, asked, join(run.folder, 'checkpoints'))
  const folder = join(run.folder, `now-${randomUUID()}`)
  try {
    await run.keep('checkpoint', folder)
    await answerTar(run, asked, folder)
  } finally {
    asked.desk.io.remove(folder)
  }
}

/** Complete checkpoints alone: of one that was being written when the run was killed there is no manifest, or no such name. */
async function answerTar(run: Run, { response, desk: { io } }: Asked, folder: string): Promise<void> {
  const whole = (io.exists(folder) ? (io.list(folder) ?? []) : []).filter(file => isWhole(file, io))
  if (run.state === 'starting' || whole.length === 0) throw new Refused(404, 'the run has left no checkpoint')
  response.writeHead(200, {
    'Content-Type': 'application/x-tar',
    'Content-Disposition': `attachment; filename="${basename(run.folder)}-checkpoint.tar"`,
  })
  await pipeline(Readable.from(archiveOf(folder, { ...io, list: () => whole })), response)
}

const isWhole = (file: string, io: Io): boolean =>
  /^step-\d+$/.test(basename(dirname(file))) && io.exists(join(dirname(file), 'manifest.json'))
