/**
 * What shared code may know of an instruction: liveness, overlap, the laws and the simulator read these
 * and never list kinds, so a new kind is covered the day it is born.
 */
import { fromFacts } from '../base/index.js'
import {
  applyRule,
  type Collective,
  type Compute,
  type Group,
  type Instr,
  type InstrKind,
  type Ref,
  type Rules,
} from './instr.js'

export type Lane = 'compute' | 'network' | 'host'

export interface Traits {
  readonly lane: Lane
  readonly reads: readonly Ref[]
  readonly writes: readonly Ref[]
  /** The ranks that must all arrive. */
  readonly meets?: Group
  /** Started here, finished by the wait on the first of what it writes. */
  readonly starts?: true
  /** The first result of the collective that is finished here. */
  readonly finishes?: Ref
}

const compute = (i: Compute): Traits => ({ lane: 'compute', reads: i.ins, writes: i.outs })
/** Ops that read what they write. */
const update = (i: Compute): Traits => ({ lane: 'compute', reads: [...i.ins, ...i.outs], writes: i.outs })
const collective = (i: Collective): Traits => ({
  lane: 'network',
  reads: i.ins,
  writes: i.outs,
  meets: i.group,
  starts: true,
})

const traits: Rules<Traits> = {
  ...fromFacts(({ updates }) => (updates ? update : compute)),
  'all-reduce': collective,
  'all-gather': collective,
  'reduce-scatter': collective,
  'all-to-all': collective,
  shift: collective,
  'all-dispatch': collective,
  'all-combine': collective,
  move: i => ({ lane: 'host', reads: i.ins, writes: i.outs, starts: true }),
  wait: i => ({ lane: 'compute', reads: [], writes: [], finishes: i.on }),
  slice: i => ({ lane: 'compute', reads: [i.in], writes: [i.out] }),
  load: i => ({ lane: 'host', reads: [], writes: [i.out] }),
}

export const isInstrKind = (kind: string): kind is InstrKind => Object.hasOwn(traits, kind)

export const traitsOf = (instr: Instr): Traits => applyRule(traits, instr, undefined)

/** Identifies what an instruction computes: the same in a backward segment is recomputation. */
export const madeBy = (instr: Instr): string => `${instr.kind} ${traitsOf(instr).writes.join()}`
