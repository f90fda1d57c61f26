/**
 * What it costs a native run to be watched: one run of `lockstep studio`, and steps of it while nobody looks and while somebody reads
 * its events and asks for its last step once a second, as the page does. Windows of both take turns, so that a slow minute is slow for both.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { processIo } from '../src/cli/io.js'
import { serveStudio } from '../src/cli/studio/server.js'
import type { Options, Say } from './main.js'
import { type Result, run as race } from './race.js'
import { showResults } from './report.js'

const job = `
name: watched
model: { family: gpt, layers: 4, embed: 128, heads: 4, vocab: 256 }
training: { seq: 128, globalBatch: 8, steps: 1000000, optimizer: { kind: adamw, lr: 3e-4 } }
plan: { dp: 2, pp: 2, microbatches: 2 }
`
/** Milliseconds of a window, and between two looks at the last step. */
const [window, between] = [4000, 1000]
/** Losses that are compared before anything is timed. */
const compared = 5

export async function watching(say: Say, { rounds = 15 }: Options): Promise<Result[]> {
  const home = process.cwd()
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-watch-'))
  process.chdir(folder) // runs are below where the server is
  const studio = await serveStudio({ port: 0, root: join(home, 'dist/studio/page') }, processIo())
  try {
    const run = await begin(studio)
    say(`a run of four ranks, ${rounds} windows of ${window / 1000} s with and without somebody who looks ...`)
    while (run.lines().length < compared) await sleep(between)
    const expected = run.lines().slice(0, compared).map(lossOf)
    const contenders = [
      {
        name: 'unwatched',
        answer: async () => run.lines().slice(0, compared).map(lossOf),
        time: () => timed(run, sleep),
      },
      { name: 'watched', answer: () => run.heard(compared), time: () => timed(run, run.watch) },
    ]
    const title = 'a step of a run of four ranks'
    return [await race({ title, expected, tolerance: 0, contenders }, { rounds, warmups: 2 })]
  } finally {
    await studio.close()
    process.chdir(home)
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
}

const lossOf = (line: string): number => (JSON.parse(line) as { readonly loss: number }).loss // of our own run

interface Watched {
  /** Steps so far, as they stand in the run's folder. */
  readonly lines: () => readonly string[]
  /** Looks for so many milliseconds. */
  readonly watch: (milliseconds: number) => Promise<void>
  /** The first losses, as a page hears them. */
  readonly heard: (count: number) => Promise<number[]>
}

async function begin({ port, url }: { readonly port: number; readonly url: string }): Promise<Watched> {
  const address = `http://127.0.0.1:${port}`
  const [cookie = ''] = (await fetch(url, { redirect: 'manual' })).headers.getSetCookie()
  const headers = { Cookie: cookie.split(';')[0]!, 'Content-Type': 'application/json' }
  const started = await fetch(`${address}/runs`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ job, save: false }),
  })
  const { id, folder } = (await started.json()) as { readonly id: string; readonly folder: string } // as the guide says
  const at = `${address}/runs/${id}`
  const metrics = join(folder, 'metrics.jsonl')
  const all = () => (existsSync(metrics) ? readFileSync(metrics, 'utf8') : '').split('\n').slice(0, -1)
  const lines = () => all().filter(line => line.startsWith('{"step"'))
  const watch = async (milliseconds: number) => {
    const { signal, abort } = abortable()
    // A page keeps its stream: what it has heard is not sent again.
    const known = { 'Last-Event-ID': String(all().length) }
    const events = fetch(`${at}/events`, { headers: { ...headers, ...known }, signal }).then(answer => answer.text())
    const looks = (async () => {
      for (;;) {
        await (await fetch(`${at}/spans`, { headers, signal })).arrayBuffer()
        await sleep(between)
      }
    })()
    await sleep(milliseconds)
    abort()
    await Promise.allSettled([events, looks])
  }
  return { lines, watch, heard: count => firstLosses(`${at}/events`, headers, count) }
}

function abortable() {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}

async function firstLosses(url: string, headers: Readonly<Record<string, string>>, count: number): Promise<number[]> {
  const { body } = await fetch(url, { headers })
  let text = ''
  for await (const part of body! as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(part).toString('utf8')
    const found = [...text.matchAll(/"loss":([\d.e-]+)/g)].map(([, loss]) => Number(loss))
    if (found.length >= count) return found.slice(0, count)
  }
  return []
}

/** Seconds of a step, of those that ended meanwhile. */
async function timed({ lines }: Watched, wait: (milliseconds: number) => Promise<unknown>): Promise<number> {
  const [from, began] = [lines().length, performance.now()]
  await wait(window)
  return (performance.now() - began) / 1000 / (lines().length - from)
}

export const showWatching = (results: readonly Result[]): string =>
  showResults(results, [{ name: 'watched', peer: 'unwatched' }])
