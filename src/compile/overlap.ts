/**
 * *overlap*: collectives are a start and a wait. This pass moves starts up to where their operand is ready, waits down to where
 * their result is used, and lets the accumulation of a reduced gradient wait for the next one, so that it travels
 * while the next gradient is computed. Order among collectives stays: every rank of a group meets in the same order.
 */
import { type Instr, type Phase, type Ref, type Traits, traitsOf } from '../ir/index.js'
import type { SegmentDraft } from './segment.js'

/** Blocks have something to compute meanwhile; what happens once a step stays as it is written. */
const ofBlocks: readonly Phase[] = ['F', 'I', 'W', 'B']

export const overlap = (draft: SegmentDraft): SegmentDraft =>
  ofBlocks.includes(draft.phase) ? { ...draft, instrs: sinkWaits(hoistStarts(deferAccumulation(draft.instrs))) } : draft

const touches = (instr: Instr): Ref[] => [...traitsOf(instr).reads, ...traitsOf(instr).writes]

/** A wait names the first result of its collective and finishes all of them. */
const collectives = (instrs: readonly Instr[]): ReadonlyMap<Ref | undefined, Traits> =>
  new Map(instrs.map(traitsOf).flatMap(traits => (traits.starts ? [[traits.writes[0], traits]] : [])))

function hoistStarts(instrs: readonly Instr[]): Instr[] {
  const started = collectives(instrs)
  const turned = new Set(instrs.flatMap(instr => (instr.kind === 'shift' ? instr.outs : [])))
  const out: Instr[] = []
  for (const instr of instrs) {
    const { starts, reads, writes } = traitsOf(instr)
    // What has just arrived goes on when the ring says so: sooner, it would have to be waited for sooner.
    if (!starts || (instr.kind === 'shift' && reads.some(ref => turned.has(ref)))) {
      out.push(instr)
      continue
    }
    const blocks = (other: Instr) =>
      traitsOf(other).starts ||
      traitsOf(other).writes.some(ref => reads.includes(ref)) ||
      touches(other).some(ref => writes.includes(ref)) ||
      started.get(traitsOf(other).finishes)?.writes.some(ref => reads.includes(ref))
    out.splice(out.findLastIndex(blocks) + 1, 0, instr)
  }
  return out
}

function sinkWaits(instrs: readonly Instr[]): Instr[] {
  const started = collectives(instrs)
  const out: Instr[] = []
  for (const instr of [...instrs].reverse()) {
    const { finishes } = traitsOf(instr)
    if (finishes === undefined) {
      out.unshift(instr)
      continue
    }
    const { reads: operands, writes: results } = started.get(finishes)!
    const blocks = (other: Instr) =>
      traitsOf(other).writes.some(ref => results.includes(ref) || operands.includes(ref)) ||
      traitsOf(other).reads.some(ref => results.includes(ref))
    const at = out.findIndex(blocks)
    out.splice(at < 0 ? out.length : at, 0, instr)
  }
  return out
}

/** Each accumulation of a collective's result moves down to the next such accumulation, or to the end. */
function deferAccumulation(instrs: readonly Instr[]): Instr[] {
  const arriving = new Set(instrs.flatMap(i => (traitsOf(i).starts ? traitsOf(i).writes : [])))
  const out: Instr[] = []
  let deferred: Instr[] = []
  for (const instr of instrs) {
    if (instr.kind !== 'accumulate' || !arriving.has(instr.ins[0])) out.push(instr)
    else {
      out.push(...deferred)
      deferred = [instr]
    }
  }
  return [...out, ...deferred]
}
