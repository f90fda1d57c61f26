/**
 * S: no deadlock. All streams are played together, seeing only what can make them wait: posting a send
 * or a recv, waiting for one, and joining other streams in a collective. A send completes only when its recv has
 * been posted. When nobody can move, the chain of who waits for whom is followed until it closes.
 */
import type { Spoken } from '../../base/index.js'
import { isCollective } from '../instr.js'
import type { Program } from '../program.js'
import { traitsOf } from '../traits.js'
import { crossingsOf, stagesOf } from './groups.js'
import { type Finding, type Law, placeOf } from './law.js'
import { clause, told } from './phrases.js'

type Event = { readonly step: number; readonly instr?: number; readonly segment?: string } & (
  | { readonly act: 'send' | 'recv'; readonly tag: string; readonly peer: number }
  | { readonly act: 'wait'; readonly tag: string; readonly peer: number; readonly on: 'send' | 'recv' }
  | { readonly act: 'arrive' | 'leave'; readonly collective: string; readonly stages: readonly number[] }
)

export function stalls(program: Program): Finding[] {
  const streams = program.streams.map((_, pipeline) => eventsOf(program, pipeline))
  const loose = play(streams, 'S1', false)
  return loose.length > 0 ? loose : play(streams, 'S2', true)
}

function eventsOf(program: Program, pipeline: number): Event[] {
  const flying = new Map<string, { on: 'send' | 'recv'; peer: number }>()
  const started = new Map<string, readonly Meet[]>()
  const met = new Map<string, number>()
  const crossings = new Map<string, Crossing[]>()
  return program.streams[pipeline].steps.flatMap((step, i): Event[] => {
    if (step.kind === 'send' || step.kind === 'recv') {
      flying.set(step.tag, { on: step.kind, peer: step.peer })
      return [{ step: i, act: step.kind, tag: step.tag, peer: step.peer }]
    }
    if (step.kind === 'wait') {
      const flight = flying.get(step.tag)
      if (flight) return [{ step: i, act: 'wait', tag: step.tag, ...flight }]
      return (started.get(step.tag) ?? []).map(event => ({ ...event, act: 'leave', step: i }))
    }
    if (step.kind !== 'call') return []
    const found = crossings.get(step.segment) ?? crossingEvents(program, step.segment)
    crossings.set(step.segment, found)
    const events = found.map(({ group, ...event }): Meet => {
      const n = (met.get(group) ?? 0) + (event.act === 'arrive' ? 1 : 0)
      met.set(group, n)
      return { ...event, step: i, segment: step.segment, collective: `${group} #${n}` }
    })
    if (step.tag !== undefined) started.set(step.tag, events)
    return events
  })
}

type Meet = Extract<Event, { act: 'arrive' | 'leave' }>

interface Crossing {
  readonly act: 'arrive' | 'leave'
  readonly instr: number
  readonly stages: readonly number[]
  readonly group: string
}

/** A segment's collectives with other streams: arriving at the start, leaving at the wait. */
function crossingEvents(program: Program, name: string): Crossing[] {
  const segment = program.segments[name]
  const starts = new Set(crossingsOf(program, segment))
  const open = new Map<string, { stages: readonly number[]; group: string }>()
  return segment.instrs.flatMap((instr, i): Crossing[] => {
    if (starts.has(i) && isCollective(instr)) {
      const stages = stagesOf(program, instr.group) ?? []
      const group = `${instr.group.axes.filter(axis => axis !== 'pp').join(',')}@${stages.join(',')}`
      open.set(instr.outs[0], { stages, group })
      return [{ act: 'arrive', instr: i, stages, group }]
    }
    const finished = traitsOf(instr).finishes
    const collective = finished === undefined ? undefined : open.get(finished)
    return collective ? [{ act: 'leave', instr: i, ...collective }] : []
  })
}

function play(streams: readonly (readonly Event[])[], law: Law, rendezvous: boolean): Finding[] {
  const posted = new Set<string>()
  const present = new Map<string, number>()
  const at = streams.map(() => 0)
  const blocked = (event: Event): boolean => {
    if (event.act === 'wait') return !posted.has(`${event.on === 'send' ? 'recv' : 'send'} ${event.tag}`)
    if (event.act === 'send') return rendezvous && !posted.has(`recv ${event.tag}`)
    return event.act === 'leave' && (present.get(event.collective) ?? 0) < event.stages.length
  }
  for (let moved = true; moved; ) {
    moved = false
    streams.forEach((events, s) => {
      while (at[s] < events.length && !blocked(events[at[s]])) {
        const event = events[at[s]++]
        if (event.act === 'send' || event.act === 'recv') posted.add(`${event.act} ${event.tag}`)
        if (event.act === 'arrive') present.set(event.collective, (present.get(event.collective) ?? 0) + 1)
        moved = true
      }
    })
  }
  const stuck = streams.flatMap((events, s) => (at[s] < events.length ? [s] : []))
  if (stuck.length === 0) return []
  const waiting = streams.map((events, s): Event | undefined => events[at[s]])
  return explain(waiting, stuck[0], law, present)
}

/** Follow who waits for whom from a stuck stream until a stream comes up again; each of them is a place to look at. */
function explain(
  waiting: readonly (Event | undefined)[],
  first: number,
  law: Law,
  present: ReadonlyMap<string, number>,
): Finding[] {
  const chain: number[] = []
  for (let s: number | undefined = first; s !== undefined && !chain.includes(s); s = waitsFor(waiting, s)) chain.push(s)
  const said = told('stall', { chain: { joint: ';', of: chain.map(s => describe(waiting[s], s, present)) } })
  return chain.filter(s => waiting[s]).map(s => ({ law, ...placeOf({ ...waiting[s], pipeline: s }), ...said }))
}

function waitsFor(waiting: readonly (Event | undefined)[], s: number): number | undefined {
  const event = waiting[s]
  if (!event) return undefined
  if ('peer' in event) return event.peer
  const missing = (other: Event | undefined) =>
    !(other && 'collective' in other && other.collective === event.collective)
  return event.stages.find(stage => stage !== s && missing(waiting[stage]))
}

function describe(event: Event | undefined, s: number, present: ReadonlyMap<string, number>): Spoken {
  if (!event) return clause('.finished', { stream: s })
  const where = { stream: s, step: event.step }
  if (event.act === 'send') return clause('.sends', { ...where, tag: event.tag, peer: event.peer })
  if (event.act === 'wait') return clause('.waits', { ...where, on: event.on, tag: event.tag, peer: event.peer })
  if (!('collective' in event)) return clause('.stands', where)
  const { collective, stages } = event
  return clause('.meets', { ...where, collective, present: present.get(collective) ?? 0, all: stages.length })
}
