/**
 * Fused LM head and loss: where forward and backward of the last block follow each other, they are one call: what the forward would keep until
 * then, the logits above all, need not be kept, and the loss is worked out for a few tokens at a time (cross-entropy.ts).
 * The program that comes out computes the same; its memory plan, which counts the logits, is more than is used (held.ts).
 */
import {
  type Call,
  type Instr,
  type Program,
  type Ref,
  type Role,
  type Segment,
  type Step,
  type Stream,
  traitsOf,
} from '../ir/index.js'
import { crossEntropyIn } from './cross-entropy.js'

/** A program with heads in one call, wherever all calls of a head allow it. */
export function mergedHeads(program: Program): Program {
  const pairs = pairsOf(program)
  const merged = new Map<string, Merged>()
  for (const [names, calls] of pairs) {
    const [F, B] = names.split('\n').map(name => program.segments[name])
    const one = mergedOf(F, B, calls)
    if (one && isEvery(program, names, calls.length) && crossEntropyIn(one.segment)) merged.set(names, one)
  }
  if (merged.size === 0) return program
  const found = [...merged.values()].map(({ segment }) => [segment.name, segment] as const)
  return {
    ...program,
    segments: { ...program.segments, ...Object.fromEntries(found) },
    streams: program.streams.map(stream => ({ ...stream, steps: stepsMerged(program, stream, merged) })),
  }
}

interface Pair {
  readonly F: Call
  readonly B: Call
}

const nameOf = ({ F, B }: Pair): string => `${F.segment}\n${B.segment}`

/** Forwards whose next call is their own backward, by the names of both segments. */
function pairsOf(program: Program): Map<string, Pair[]> {
  const found = new Map<string, Pair[]>()
  for (const { steps } of program.streams)
    for (const pair of adjacent(program, steps)) found.set(nameOf(pair), [...(found.get(nameOf(pair)) ?? []), pair])
  return found
}

function adjacent({ segments }: Program, steps: Stream['steps']): Pair[] {
  const found: Pair[] = []
  let last: Call | undefined
  for (const step of steps) {
    if (step.kind === 'free' && last && !isScratch(segments[last.segment], last, step.frame)) last = undefined
    if (step.kind !== 'call') continue
    // What only starts may start before the forward, if it has nothing to do with it.
    if (step.tag !== undefined && !step.bind.some(frame => last?.bind.includes(frame))) continue
    const [before, F] = [last, last && segments[last.segment]]
    last = step
    if (!before || F?.phase !== 'F' || segments[step.segment].phase !== 'B') continue
    if (before.block === step.block && before.microbatch === step.microbatch) found.push({ F: before, B: step })
  }
  return found
}

/** A frame that is not of the call, or for it alone: as a local variable it lives as long as it is used. */
const isScratch = ({ roles }: Segment, { bind }: Call, frame: number): boolean =>
  bind.every((bound, i) => bound !== frame || roles[i].name.is === 'scratch')

/** All calls of both segments are such pairs. */
function isEvery({ streams }: Program, names: string, pairs: number): boolean {
  const calls = streams.flatMap(({ steps }) =>
    steps.filter(step => step.kind === 'call' && names.split('\n').includes(step.segment)),
  )
  return calls.length === 2 * pairs
}

interface Merged {
  readonly segment: Segment
  /** For each role of the backward its place among the roles of both. */
  readonly places: readonly number[]
}

function mergedOf(F: Segment, B: Segment, calls: readonly Pair[]): Merged | undefined {
  const roles: Role[] = [...F.roles]
  const places = B.roles.map((role, i) => {
    const at = calls[0].F.bind.indexOf(calls[0].B.bind[i])
    return at >= 0 ? at : roles.push(role) - 1
  })
  const same = (pair: Pair) =>
    places.every((place, i) => pair.F.bind.indexOf(pair.B.bind[i]) === (place < F.roles.length ? place : -1))
  if (!calls.every(same)) return undefined
  const names = renamed(F, B, places)
  const again = repeats(F, B, names)
  const of = (ref: Ref) => again.get(ref) ?? names.get(ref)!
  const isNew = (instr: Instr) =>
    instr.kind === 'wait' ? !again.has(instr.on) : !traitsOf(instr).writes.some(ref => again.has(ref))
  const buffers = Object.entries(B.buffers).map(([ref, buffer]) => [of(ref), { ...buffer, role: places[buffer.role] }])
  const segment: Segment = {
    ...{ name: `${F.name}${B.phase}`, phase: 'B', roles },
    buffers: { ...Object.fromEntries(buffers), ...F.buffers },
    instrs: [...F.instrs, ...B.instrs.filter(isNew).map(instr => withRefs(instr, of))],
  }
  return { segment, places }
}

/** What the backward calls the values: those it finds in a frame have the name they have in the forward. */
function renamed(F: Segment, B: Segment, places: readonly number[]): ReadonlyMap<Ref, Ref> {
  const lying = new Map<string, Ref>()
  for (const [ref, { role, offset }] of Object.entries(F.buffers)) lying.set(`${role}+${offset}`, ref)
  for (const instr of F.instrs)
    for (const ref of traitsOf(instr).writes) lying.set(`${F.buffers[ref].role}+${F.buffers[ref].offset}`, ref)
  const written = new Set(
    B.instrs.map(traitsOf).flatMap(({ reads, writes }) => writes.filter(ref => !reads.includes(ref))),
  )
  return new Map(
    Object.entries(B.buffers).map(([ref, { role, offset }]) => {
      const known = written.has(ref) ? undefined : lying.get(`${places[role]}+${offset}`)
      return [ref, known ?? (ref in F.buffers ? `${ref}.again` : ref)]
    }),
  )
}

/** What the backward computes again of what the forward has just computed: by its name there, the name it has here. */
function repeats(F: Segment, B: Segment, names: ReadonlyMap<Ref, Ref>): ReadonlyMap<Ref, Ref> {
  const again = new Map<Ref, Ref>()
  const text = (instr: Instr) =>
    JSON.stringify(instr, (key, value) => (key === 'outs' || key === 'out' ? undefined : value))
  const known = new Map(F.instrs.filter(isPure).map(instr => [text(instr), traitsOf(instr).writes]))
  for (const instr of B.instrs) {
    if (!isPure(instr)) continue
    const found = known.get(text(withRefs(instr, ref => again.get(ref) ?? names.get(ref)!)))
    for (const [i, ref] of traitsOf(instr).writes.entries()) if (found) again.set(ref, found[i])
  }
  return again
}

/** Makes a value, and changes none. */
const isPure = (instr: Instr): boolean => {
  const { reads, writes } = traitsOf(instr)
  return writes.length > 0 && !writes.some(ref => reads.includes(ref))
}

/** An instruction over other names. */
function withRefs<I extends Instr>(instr: I, of: (ref: Ref) => Ref): I {
  const changed: Record<string, unknown> = { ...instr }
  for (const key of ['ins', 'outs']) if (key in instr) changed[key] = (changed[key] as Ref[]).map(of) // lists of refs
  for (const key of ['in', 'out', 'on']) if (key in instr) changed[key] = of(changed[key] as Ref) // refs
  return changed as I // of the same kind
}

/** The forward goes to where its backward is. */
function stepsMerged(program: Program, { steps }: Stream, merged: ReadonlyMap<string, Merged>): Step[] {
  const pairs = new Map<Step, Pair>(
    adjacent(program, steps)
      .filter(pair => merged.has(nameOf(pair)))
      .map(pair => [pair.B, pair]),
  )
  const gone = new Set<Step>([...pairs.values()].map(({ F }) => F))
  return steps
    .filter(step => !gone.has(step))
    .map(step => {
      const pair = pairs.get(step)
      if (!pair) return step
      const { segment, places } = merged.get(nameOf(pair))!
      const bind = segment.roles.map((_, i) => pair.F.bind[i] ?? pair.B.bind[places.indexOf(i)])
      return { ...pair.B, segment: segment.name, bind }
    })
}
