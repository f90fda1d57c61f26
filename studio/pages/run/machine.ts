/** Runs on this machine, through the server of `lockstep studio`. */
import type { Peaks, Problem, RunNote, StepView } from 'lockstep'
import { unpacked } from '../../base/binary.js'
import { language } from '../../base/language.js'
import { ask, askJson, listen, type ServerEvent } from '../../base/server.js'
import { linkPhrases } from '../../text/link-phrases.js'
import { problemZh } from '../../text/problems.zh.js'
import type { RunFacts } from '../../work/run.js'
import type { Driver, Heard, Request } from './driver.js'
import { text } from './text.js'

export interface RunSummary {
  readonly id: string
  readonly name: string
  readonly folder: string
  readonly state: 'starting' | 'running' | 'done' | 'stopped' | 'failed'
  readonly facts?: RunFacts
  readonly memory?: Peaks
  readonly problems: readonly Problem[]
  readonly notes?: readonly RunNote[]
}

export interface Machine {
  readonly cores: number
  readonly cpu: string
  readonly job: { readonly path: string; readonly text: string } | null
}

/** Undefined, or none: the server does not answer, which whoever starts a run is told. */
export const machine = (): Promise<Machine | undefined> => jsonOf('./machine')
export const machineRuns = async (): Promise<readonly RunSummary[]> =>
  (await jsonOf<{ readonly runs: readonly RunSummary[] }>('./runs'))?.runs ?? []

const jsonOf = async <T>(path: string): Promise<T | undefined> =>
  ask(path).then(
    answer => (answer.ok ? (answer.json() as Promise<T>) : undefined), // of our own server
    () => undefined,
  )

/** What the server refuses. */
class ServerRefused extends Error {
  readonly problems: readonly Problem[]
  constructor(message: string, problems: readonly Problem[]) {
    super(message)
    this.problems = problems
  }
}

async function send<T = RunSummary>(path: string, method: string, body?: object): Promise<T> {
  const answer = await (body ? askJson(path, method, body) : ask(path, { method }))
  const value = await answer.json()
  if (!answer.ok) throw new ServerRefused(value.message, value.problems)
  return value
}

const fileNames = ['trace.json', 'metrics.jsonl', 'job.yaml', 'checkpoint.tar']

/** Fetches fail in words of the browser's own. */
function unheard(why: string): Problem {
  const phrase = 'engine/failed/silent'
  const [message, suggestion] = linkPhrases[phrase]
  const said = { phrase, values: { why }, message: message.replace('{why}', why), suggestion }
  return { code: 'engine/failed', severity: 'error', path: '', ...said }
}

const sayProblem = (problem: Problem): string =>
  language.value === 'zh' ? problemZh(problem) : [problem.message, problem.suggestion].filter(Boolean).join('; ')

const isOver = ({ state }: RunSummary): boolean => state === 'done' || state === 'stopped' || state === 'failed'

/** Follows a run that is there. */
export function followMachine({ id }: Pick<RunSummary, 'id'>, heard: Heard): Driver {
  const path = `./runs/${id}`
  const leaving = new AbortController()
  const filesOf = (names: readonly string[]) =>
    names.map(name => ({
      ...{ name, href: `${path}/${name}` },
      take: () => tell(download(`${path}/${name}`, name)),
    }))
  let [last, noted, looking] = [undefined as RunSummary | undefined, 0, false]
  const look = async () => {
    if (looking) return
    looking = true
    const answer = await ask(`${path}/spans`).catch(() => undefined)
    if (answer?.status === 200) heard.told({ kind: 'view', view: unpacked(await answer.arrayBuffer()) as StepView }) // as the server packs it
    looking = false
  }
  const onRun = (run: RunSummary) => {
    if (run.facts && !last?.facts) {
      heard.told({ kind: 'facts', facts: run.facts })
      heard.files(filesOf(fileNames))
    }
    if (run.memory) heard.told({ kind: 'memory', memory: run.memory })
    for (const note of (run.notes ?? []).slice(noted)) heard.told({ kind: 'note', note })
    ;[last, noted] = [run, run.notes?.length ?? 0]
  }
  const onEnd = () => {
    leaving.abort()
    if (!last) return
    const { state, problems } = last
    const finish = () => {
      const files = fileNames.filter(name => state !== 'failed' || name === 'metrics.jsonl' || name === 'job.yaml')
      const ended = isOver(last as RunSummary) ? (state as 'done') : 'failed' // a stream ends with its run
      heard.ended({ state: ended, problems, files: filesOf(files) })
    }
    if (state === 'failed') finish()
    else void look().then(finish)
  }
  let silent = false
  const listeners = {
    opened() {
      silent = false
    },
    broken() {
      if (!silent) heard.noted(() => sayProblem(unheard(text().brokeOff)))
      silent = true
    },
    heard({ event, data }: ServerEvent) {
      if (event === 'lines') heard.told({ kind: 'lines', lines: JSON.parse(data) })
      else if (event === 'run')
        onRun(JSON.parse(data)) // of our own server
      else if (event === 'end') onEnd()
    },
  }
  void listen(`${path}/events`, listeners, leaving.signal)
  const tell = (work: Promise<unknown>) =>
    void work.catch((e: Error) =>
      heard.noted(() => (e instanceof ServerRefused ? sayRefused(e) : sayProblem(unheard(String(e))))),
    )
  return {
    id,
    stop: () => tell(send(path, 'DELETE')),
    fault: text => tell(send(`${path}/faults`, 'POST', { fault: text })),
    look: () => void look(),
    keep() {}, // the server makes them when they are asked for
    leave: () => leaving.abort(),
  }
}

/** By a one-use ticket: the browser saves the file as it comes, and requests of links carry no headers. */
async function download(path: string, name: string): Promise<void> {
  const { pathname } = new URL(path, location.href)
  const { href } = await send<{ readonly href: string }>('./tickets', 'POST', { path: pathname })
  Object.assign(document.createElement('a'), { href, download: name }).click()
}

const sayRefused = ({ message, problems }: ServerRefused): string =>
  problems.length > 0 ? problems.map(sayProblem).join('; ') : message

export async function startOnMachine(
  { job, files, from, steps, sample, keepGoing }: Request,
  heard: Heard,
): Promise<Driver> {
  try {
    const used = Object.fromEntries(Object.entries(files).filter(([name]) => job.includes(name)))
    const more = from === undefined ? (Object.keys(used).length > 0 ? { files: used } : {}) : { from }
    const run = await send('./runs', 'POST', { job, ...more, steps, keepGoing, ...(sample !== '' && { sample }) })
    return followMachine(run, heard)
  } catch (e) {
    const { message, problems } = e instanceof ServerRefused ? e : { message: '', problems: [unheard(String(e))] }
    const said: Problem = { code: 'engine/failed', severity: 'error', path: '', message }
    heard.ended({ state: 'failed', problems: problems.length > 0 ? problems : [said], files: [] })
    return { id: '', stop() {}, fault() {}, look() {}, keep() {}, leave() {} }
  }
}
