/**
 * The rules of the trace event format, as chrome://tracing and Perfetto's JSON importer apply them: what breaks one is dropped
 * in silence, or counted as an error of the trace. Returns everything that is wrong.
 */
export interface TraceEvent {
  readonly ph: string
  readonly name?: string
  readonly cat?: string
  readonly pid?: number
  readonly tid?: number
  readonly ts?: number
  readonly dur?: number
  readonly id?: string | number
  readonly bp?: string
  readonly args?: Readonly<Record<string, unknown>>
}

const phases = ['B', 'E', 'X', 'i', 'C', 'M', 's', 't', 'f', 'b', 'e', 'n']
const ofThreads = ['B', 'E', 'X', 's', 't', 'f']

export function brokenRules(events: readonly TraceEvent[]): string[] {
  return [
    ...fieldRules(events),
    ...nameRules(events),
    ...sliceRules(events),
    ...pairRules(events),
    ...flowRules(events),
    ...counterRules(events),
  ]
}

const told = (event: TraceEvent): string => JSON.stringify(event)

function fieldRules(events: readonly TraceEvent[]): string[] {
  return events.flatMap(event => {
    const { ph, pid, tid, ts, dur } = event
    const wrong = [
      phases.includes(ph) ? '' : 'unknown phase',
      Number.isInteger(pid) && Number(pid) > 0 ? '' : 'no process, or the idle one',
      ofThreads.includes(ph) && !(Number.isInteger(tid) && Number(tid) > 0) ? 'no thread, or the idle one' : '',
      ph === 'M' || (Number.isFinite(ts) && Number(ts) >= 0) ? '' : 'no time',
      ph !== 'X' || (Number.isFinite(dur) && Number(dur) > 0) ? '' : 'takes no time, or less',
      ph === 'M' || Number.isInteger(Math.round(Number(ts) * 1e6) / 1e3) ? '' : 'not in nanoseconds',
    ]
    return wrong.filter(rule => rule !== '').map(rule => `${rule}: ${told(event)}`)
  })
}

/** Every process and every thread has a name, once; a thread's number is nobody else's in the file. */
function nameRules(events: readonly TraceEvent[]): string[] {
  const named = (what: string) => events.filter(({ ph, name }) => ph === 'M' && name === what)
  const keys = (of: readonly TraceEvent[], key: (event: TraceEvent) => unknown) => of.map(key)
  const twice = (all: readonly unknown[]) => all.filter((key, i) => all.indexOf(key) !== i)
  const processes = keys(named('process_name'), ({ pid }) => pid)
  const threads = keys(named('thread_name'), ({ tid }) => tid)
  const missing = events.filter(
    ({ ph, pid, tid }) =>
      ph !== 'M' && (!processes.includes(pid) || (ofThreads.includes(ph) && !threads.includes(tid))),
  )
  const owners = new Map<unknown, unknown>()
  const shared = events.filter(({ pid, tid }) => {
    if (tid === undefined) return false
    const owner = owners.get(tid) ?? pid
    owners.set(tid, owner)
    return owner !== pid
  })
  return [
    ...twice([...processes.map(pid => `process ${pid}`), ...threads.map(tid => `thread ${tid}`)]).map(
      key => `named twice: ${key}`,
    ),
    ...missing.map(event => `no name: ${told(event)}`),
    ...shared.map(event => `a thread of two processes: ${told(event)}`),
  ]
}

/** Slices of a thread are apart, or one is inside the other. */
function sliceRules(events: readonly TraceEvent[]): string[] {
  return [...byThread(events.filter(({ ph }) => ph === 'X')).values()].flatMap(own => {
    const open: number[] = []
    return own
      .toSorted((a, b) => a.ts! - b.ts! || b.dur! - a.dur!)
      .flatMap(event => {
        const [start, end] = [nano(event.ts!), nano(event.ts! + event.dur!)]
        while (open.length > 0 && open[open.length - 1] <= start) open.pop()
        const crosses = open.length > 0 && open[open.length - 1] < end
        open.push(end)
        return crosses ? [`overlaps the one before: ${told(event)}`] : []
      })
  })
}

const nano = (micro: number): number => Math.round(micro * 1e3)

function byThread(events: readonly TraceEvent[]): Map<number | undefined, TraceEvent[]> {
  const threads = new Map<number | undefined, TraceEvent[]>()
  for (const event of events) threads.set(event.tid, [...(threads.get(event.tid) ?? []), event])
  return threads
}

/** What begins ends, later, under the same name: b and e by process, category and id, B and E by thread. */
function pairRules(events: readonly TraceEvent[]): string[] {
  const open = new Map<string, TraceEvent[]>()
  const key = ({ ph, pid, tid, cat, id }: TraceEvent) => ('BE'.includes(ph) ? `${tid}` : `${pid} ${cat} ${id}`)
  const wrong: string[] = []
  for (const event of events.filter(({ ph }) => 'BEbe'.includes(ph))) {
    const own = open.get(key(event)) ?? []
    open.set(key(event), own)
    if ('Bb'.includes(event.ph)) own.push(event)
    else {
      const begun = own.pop()
      if (!begun || begun.name !== event.name || begun.ts! > event.ts!)
        wrong.push(`ends what did not begin: ${told(event)}`)
    }
  }
  return [...wrong, ...[...open.values()].flat().map(event => `never ends: ${told(event)}`)]
}

/** A flow begins once and ends once, in time, and each of its points lies in a slice of its thread. */
function flowRules(events: readonly TraceEvent[]): string[] {
  const slices = byThread(events.filter(({ ph }) => ph === 'X'))
  const holds = ({ tid, ts }: TraceEvent) =>
    (slices.get(tid) ?? []).some(slice => slice.ts! <= ts! && ts! < slice.ts! + slice.dur!)
  const flows = new Map<string, TraceEvent[]>()
  for (const event of events.filter(({ ph }) => 'stf'.includes(ph))) {
    const key = `${event.cat} ${event.name} ${event.id}`
    flows.set(key, [...(flows.get(key) ?? []), event])
  }
  return [...flows].flatMap(([key, own]) => [
    ...(/^st*f$/.test(own.map(({ ph }) => ph).join('')) ? [] : [`not one beginning and one end: ${key}`]),
    ...(own.every((event, i) => i === 0 || event.ts! >= own[i - 1].ts!) ? [] : [`back in time: ${key}`]),
    ...own.flatMap(event => (holds(event) ? [] : [`in no slice: ${told(event)}`])),
    ...own.flatMap(event => (event.ph === 'f' && event.bp !== 'e' ? [`binds to the next slice: ${told(event)}`] : [])),
  ])
}

/** Counters are numbers, of the same series each time, and go forward in time. */
function counterRules(events: readonly TraceEvent[]): string[] {
  const last = new Map<string, TraceEvent>()
  return events
    .filter(({ ph }) => ph === 'C')
    .flatMap(event => {
      const key = `${event.pid} ${event.name}`
      const before = last.get(key)
      last.set(key, event)
      const series = (of: TraceEvent) => Object.keys(of.args ?? {}).join()
      const wrong = [
        Object.values(event.args ?? {}).every(value => Number.isFinite(value) && Number(value) >= 0) ? '' : 'no number',
        before && before.ts! > event.ts! ? 'back in time' : '',
        before && series(before) !== series(event) ? 'other series' : '',
      ]
      return wrong.filter(rule => rule !== '').map(rule => `${rule}: ${told(event)}`)
    })
}
