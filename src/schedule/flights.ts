/**
 * *data*: when the data axes talk. Parameters that lie in parts are gathered before they are read, gradients are reduced
 * when they are final, and both travel while blocks compute: a *flight* is one collective that moves the tensors of many
 * parameters, started after one call of a block and waited for before another. This file knows the order of a stream's
 * calls and the sizes of parameters, nothing of layouts or instructions.
 */

/** One collective over the data axes, from its start to its end. `sum`: of what was reduced within a group, over its replicas. */
export interface Flight {
  readonly kind: 'gather' | 'reduce' | 'sum'
  readonly tag: string
  readonly params: readonly string[]
  /** The call whose own frames it fills or empties; absent where it serves the whole step. */
  readonly call?: number
  /** Of a rank that plays several, one call for each of them. */
  readonly calls?: readonly number[]
}

/**
 * `lift`: parts that live elsewhere leave for the device, from where a flight takes them. `add`: what a reduced flight of one call
 * brought is added to the sums of the step.
 */
export interface FlightEvent {
  readonly event: 'lift' | 'start' | 'wait' | 'add'
  readonly flight: Flight
}

/** A call of a block: the parameters it reads, and those whose gradients it makes. */
export interface DataCall {
  readonly reads: readonly string[]
  readonly makes: readonly string[]
  /** Of a rank that plays several: calls of the same are reduced together. */
  readonly together?: string
}

export interface DataPolicy {
  /** Parameters are gathered once a step, for every call that reads them, or lie whole. */
  readonly gather: 'step' | 'use' | 'never'
  /** Gradients are reduced once a step, after every call that makes them, or need not be. */
  readonly reduce: 'step' | 'call' | 'never'
  /** Of these gradients what was reduced is still to be summed over replicas. */
  readonly isSummed?: (param: string) => boolean
  /** Bytes at which a flight of the whole step is full. */
  readonly bucket: number
  /** Calls that read parameters ahead of which they are gathered. */
  readonly prefetch: number
  /** Parameters live elsewhere. */
  readonly lifts?: boolean
  /** Nothing travels while blocks compute. */
  readonly waits: boolean
}

/** What to do before the first call, around each call, and after the last. */
export interface FlightPlan {
  readonly begin: readonly FlightEvent[]
  readonly before: readonly (readonly FlightEvent[])[]
  readonly after: readonly (readonly FlightEvent[])[]
  readonly end: readonly FlightEvent[]
  /** The flight that brings the parameters a call reads, where every call has its own. */
  readonly fetched: readonly (Flight | undefined)[]
}

/**
 * Of what follows a call: what must follow it at once, and what may leave behind the messages of its task. Sums of the step
 * may; gradients of one call only if it is the last of the task, since others wait for them.
 */
export function departures(
  events: readonly FlightEvent[],
  last: boolean,
): Record<'now' | 'later', readonly FlightEvent[]> {
  const ofStep = events.every(({ event, flight }) => event === 'start' && flight.call === undefined)
  return last || ofStep ? { now: [], later: events } : { now: events, later: [] }
}

const lift = (flight: Flight): FlightEvent => ({ event: 'lift', flight })
const start = (flight: Flight): FlightEvent => ({ event: 'start', flight })
const wait = (flight: Flight): FlightEvent => ({ event: 'wait', flight })
const add = (flight: Flight): FlightEvent => ({ event: 'add', flight })

/** `bytesOf` is asked for the size of what travels of a parameter. */
export function planFlights(
  calls: readonly DataCall[],
  policy: DataPolicy,
  bytesOf: (param: string) => number,
): FlightPlan {
  const gathers = policy.gather === 'use' ? fetches(calls, policy) : stepGathers(calls, policy, bytesOf)
  const reduces =
    policy.reduce !== 'call'
      ? stepReduces(calls, policy, bytesOf)
      : calls.some(({ together }) => together !== undefined)
        ? togetherReduces(calls)
        : callReduces(calls, policy)
  return {
    begin: gathers.begin,
    before: gathers.before,
    after: reduces.after,
    end: reduces.end,
    fetched: gathers.fetched,
  }
}

type Gathers = Pick<FlightPlan, 'begin' | 'before' | 'fetched'>
type Reduces = Pick<FlightPlan, 'after' | 'end'>

/** Parameters in the order given, in runs that are full when they reach the size of a bucket. Groups are not split. */
function bucketsOf<T>(groups: readonly (readonly T[])[], bucket: number, bytesOf: (item: T) => number): T[][] {
  const buckets: T[][] = []
  let full = true
  let bytes = 0
  for (const group of groups.filter(({ length }) => length > 0)) {
    if (full) {
      buckets.push([])
      bytes = 0
    }
    buckets.at(-1)!.push(...group)
    bytes += group.reduce((sum, item) => sum + bytesOf(item), 0)
    full = bytes >= bucket
  }
  return buckets
}

/**
 * Once a step: buckets in the order of first use, all started at the beginning. Calls that read the same may share a list,
 * which is then looked into once.
 */
function stepGathers(calls: readonly DataCall[], policy: DataPolicy, bytesOf: (param: string) => number): Gathers {
  const lists = new Set<readonly string[]>()
  const seen = new Set<string>()
  const firsts = calls.map(({ reads }) =>
    policy.gather === 'step' && fresh(lists, reads) ? reads.filter(param => fresh(seen, param)) : [],
  )
  const flights = bucketsOf(firsts, policy.bucket, bytesOf).map(
    (params, i): Flight => ({ kind: 'gather', tag: `gather ${i}`, params }),
  )
  const flightOf = new Map(flights.flatMap(flight => flight.params.map(param => [param, flight] as const)))
  const waited = new Set<Flight>()
  const waits = firsts.map(params => params.map(param => flightOf.get(param)!).filter(flight => fresh(waited, flight)))
  return {
    begin: [
      ...(policy.lifts ? flights.map(lift) : []),
      ...flights.flatMap(flight => (policy.waits ? [start(flight), wait(flight)] : [start(flight)])),
    ],
    before: waits.map(before => (policy.waits ? [] : before.map(wait))),
    fetched: calls.map(() => undefined),
  }
}

/** For every call that reads parameters, started so many such calls ahead; the next call may find them still there. */
function fetches(calls: readonly DataCall[], { prefetch, lifts, waits }: DataPolicy): Gathers {
  const flights: Flight[] = []
  const fetched = calls.map(({ reads }, call): Flight | undefined => {
    if (reads.length === 0) return undefined
    const last = flights.at(-1)
    if (last && (last.params === reads || reads.every(param => last.params.includes(param)))) return last
    flights.push({ kind: 'gather', tag: `gather ${call}`, params: reads, call })
    return flights.at(-1)
  })
  const [liftUpTo, startUpTo] = [inTurn(lifts ? flights : [], lift), inTurn(flights, start)]
  const ahead = waits ? 0 : prefetch
  let own = 0
  const before = calls.map((_, call) => {
    if (flights[own]?.call !== call) return []
    const flight = flights[own++]
    return [
      ...[...liftUpTo(own), ...startUpTo(own), wait(flight)],
      ...[...liftUpTo(own + ahead), ...startUpTo(own + ahead), ...liftUpTo(own + ahead + (waits ? 0 : 1))],
    ]
  })
  return { begin: [], before, fetched }
}

/** The events of the first so many flights that have not been given yet. */
function inTurn(flights: readonly Flight[], event: (flight: Flight) => FlightEvent): (count: number) => FlightEvent[] {
  let done = 0
  return count => {
    const events = flights.slice(done, count).map(event)
    done = Math.max(done, Math.min(count, flights.length))
    return events
  }
}

/** Once a step: a gradient is final with the last call that adds to it; a bucket leaves when its last gradient is. */
function stepReduces(calls: readonly DataCall[], policy: DataPolicy, bytesOf: (param: string) => number): Reduces {
  const finals = policy.reduce === 'step' ? finalIn(calls) : calls.map(() => [])
  const flights = bucketsOf(finals, policy.bucket, bytesOf).map(
    (params, i): Flight => ({ kind: 'reduce', tag: `reduce ${i}`, params }),
  )
  const lastOf = new Map(flights.map(flight => [flight.params.at(-1), flight]))
  const sums = summing(policy)
  const under: Flight[] = []
  /** Where there are replicas a flight is over when the next one has left, and its sums leave. */
  const arrive = (left: number): FlightEvent[] =>
    under.splice(0, under.length - left).flatMap(flight => [wait(flight), ...sums.leave(flight.params)])
  const after = finals.map(params => {
    const flight = lastOf.get(params.at(-1))
    if (params.length === 0 || !flight) return []
    under.push(flight)
    return [start(flight), ...(policy.waits ? arrive(0) : sums.areThere ? arrive(1) : [])]
  })
  return { after, end: [...arrive(0), ...sums.end()] }
}

/** Flights of sums over replicas: each leaves when what it sums has arrived, and is waited for at the end of the step. */
function summing({ isSummed, waits }: DataPolicy) {
  const left: Flight[] = []
  return {
    areThere: isSummed !== undefined,
    leave(reduced: readonly string[]): FlightEvent[] {
      const params = isSummed ? reduced.filter(isSummed) : []
      if (params.length === 0) return []
      const flight: Flight = { kind: 'sum', tag: `sum ${left.length}`, params }
      left.push(flight)
      return waits ? [start(flight), wait(flight)] : [start(flight)]
    },
    end: (): FlightEvent[] => (waits ? [] : left.map(wait)),
  }
}

/** The parameters to whose gradients nothing is added after each call. Calls that make the same may share a list. */
function finalIn(calls: readonly DataCall[]): string[][] {
  const lists = new Map<readonly string[], number>()
  for (const [call, { makes }] of calls.entries()) lists.set(makes, call)
  const last = new Map<string, number>()
  for (const [makes, call] of lists) for (const param of makes) last.set(param, Math.max(last.get(param) ?? 0, call))
  return calls.map(({ makes }, call) =>
    lists.get(makes) === call ? makes.filter(param => last.get(param) === call) : [],
  )
}

/** After every call that makes gradients: they travel until the next ones have left, and are added up then. */
function callReduces(calls: readonly DataCall[], policy: DataPolicy): Reduces {
  const { waits } = policy
  const sums = summing(policy)
  const finals = sums.areThere ? finalIn(calls) : []
  let underWay: Flight | undefined
  const finish = (): FlightEvent[] => {
    const events = underWay ? [wait(underWay), add(underWay), ...sums.leave(finals[underWay.call!] ?? [])] : []
    underWay = undefined
    return events
  }
  const after = calls.map(({ makes }, call) => {
    if (makes.length === 0) return []
    const flight: Flight = { kind: 'reduce', tag: `reduce ${call}`, params: makes, call }
    const events = [start(flight), ...finish()]
    underWay = flight
    return waits ? [...events, ...finish()] : events
  })
  return { after, end: [...finish(), ...sums.end()] }
}

/** One rank plays several: when the last of them has made a gradient, all of theirs are added up. */
function togetherReduces(calls: readonly DataCall[]): Reduces {
  const groups = new Map<string, number[]>()
  for (const [call, { together, makes }] of calls.entries())
    if (makes.length > 0) groups.set(together!, [...(groups.get(together!) ?? []), call])
  const after = calls.map(({ together, makes }, call) => {
    const group = makes.length > 0 ? groups.get(together!)! : []
    if (group.at(-1) !== call) return []
    const flight: Flight = { kind: 'reduce', tag: `reduce ${call}`, params: makes, call, calls: group }
    return [start(flight), wait(flight), add(flight)]
  })
  return { after, end: [] }
}

/** Whether a set meets an item for the first time. */
function fresh<T>(seen: Set<T>, item: T): boolean {
  const isNew = !seen.has(item)
  seen.add(item)
  return isNew
}
