/**
 * What a program is made of, sizes left out: for each kind of segment its instructions by name, and how often it is
 * called. Two programs with the same tally per segment are one program at two sizes. How many layers share a bucket is a
 * number too: all buckets that gather are one row, and all that reduce.
 */
import { type Instr, isCollective, type Program, type Segment } from '../ir/index.js'

export interface SegmentTally {
  /** Without the pipeline coordinates that share it, which are numbers too. */
  readonly name: string
  /** In order: `contract`, `all-gather tp`. */
  readonly instrs: readonly string[]
  /** Calls in one step, of all streams together. */
  readonly calls: number
}

export interface Tally {
  readonly segments: ReadonlyMap<string, SegmentTally>
  /** Sends in one step, of all streams together. */
  readonly messages: number
}

const shape = (name: string): string => name.replace(/@[\d.]+$/, '')

const isFlight = ({ instrs }: Segment): boolean => instrs.length > 0 && instrs.every(isCollective)

const describe = (instr: Instr): string =>
  'group' in instr
    ? `${instr.kind} ${instr.group.axes.join('+')}${instr.group.stages ? ' of holders' : ''}`
    : instr.kind

/**
 * The structure of a program without sizes: instructions per segment and calls per step. Two programs with equal
 * tallies differ in sizes only.
 */
export function tallyOf(program: Program): Tally {
  const calls = new Map<string, number>()
  let messages = 0
  for (const { steps } of program.streams)
    for (const step of steps) {
      if (step.kind === 'call') calls.set(step.segment, (calls.get(step.segment) ?? 0) + 1)
      if (step.kind === 'send') messages++
    }
  const segments = new Map<string, SegmentTally>()
  for (const [key, segment] of Object.entries(program.segments)) {
    const name = isFlight(segment) ? `${segment.phase} of buckets` : shape(key)
    const known = segments.get(name)
    const described = segment.instrs.map(describe)
    const instrs = isFlight(segment) ? [...new Set([...(known?.instrs ?? []), ...described])].sort() : described
    segments.set(name, { name, instrs, calls: (known?.calls ?? 0) + (calls.get(key) ?? 0) })
  }
  return { segments, messages }
}

export interface Difference {
  readonly name: string
  readonly full: readonly string[] | undefined
  readonly here: readonly string[] | undefined
}

/** Segments that only one of them has, or that do other things. */
export function differencesOf(full: Tally, here: Tally): Difference[] {
  const names = new Set([...full.segments.keys(), ...here.segments.keys()])
  return [...names].flatMap(name => {
    const [a, b] = [full.segments.get(name)?.instrs, here.segments.get(name)?.instrs]
    return a && b && a.join() === b.join() ? [] : [{ name, full: a, here: b }]
  })
}

/** 'all-gather tp x2, reduce-scatter tp x2'; empty where a segment meets nobody. */
export function collectivesOf({ instrs }: Pick<SegmentTally, 'instrs'>): string {
  const counts = new Map<string, number>()
  for (const instr of instrs) if (instr.includes(' ')) counts.set(instr, (counts.get(instr) ?? 0) + 1)
  return [...counts].map(([instr, times]) => (times > 1 ? `${instr} x${times}` : instr)).join(', ')
}
