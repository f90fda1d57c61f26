/**
 * Bucketed collectives: a segment that only starts them, as a Python function. It takes all tensors of a bucket and returns the pending
 * collective. The runtime stores the tensors that receive results in their buffers at once, and waits for them by the tag.
 */
import { type Collective, isCollective, pairsOf, type Ref, type Segment, spaceOf } from '../ir/index.js'
import { groupLabel, Unwritten } from './expressions.js'
import { quote } from './python.js'
import type { SegmentFunction, Slot } from './segment.js'
import type { Usage } from './usage.js'

export const isBucket = ({ instrs }: Segment): boolean => instrs.length > 0 && instrs.every(isCollective)

/** `within`: tensors that are part of others in the bucket, and are sent with them. */
export function emitBucket(segment: Segment, usage: Usage, within: ReadonlySet<Ref>): SegmentFunction {
  if (segment.instrs.every(({ kind }) => kind === 'move')) return emitMoves(segment, usage)
  const { names } = usage
  const alone = (refs: readonly Ref[]) => refs.filter(ref => !within.has(ref))
  const collectives = segment.instrs
    .filter(isCollective)
    .map(instr => ({ ...instr, ins: alone(instr.ins), outs: alone(instr.outs) }))
  const slot = (ref: Ref): Slot => [segment.buffers[ref].role, segment.buffers[ref].offset]
  const results = collectives.map(({ kind }, i) => `${words[kind]}${collectives.length > 1 ? `_${i + 1}` : ''}`)
  const list = (refs: readonly Ref[]) => `[${refs.map(ref => names.get(ref)!).join(', ')}]`
  return {
    segment,
    args: collectives.map(({ ins }) => ins.map(ref => names.get(ref)!)),
    body: collectives.map((instr, i) => `${results[i]} = ctx.${callOf(segment, instr, list(instr.ins))}`),
    results: [results],
    takes: collectives.flatMap(({ ins }) => ins.map(slot)),
    gives: collectives.flatMap(({ outs }) => outs.map(slot)),
    lists: [],
  }
}

/** Into tensors that live from step to step a move copies; else it makes its results. */
function emitMoves(segment: Segment, { names, resident }: Usage): SegmentFunction {
  const { buffers, roles, instrs } = segment
  const moves = instrs.filter(isCollective).flatMap(pairsOf)
  const stays = (ref: Ref) => resident[buffers[ref].role]
  const slot = (ref: Ref): Slot => [buffers[ref].role, buffers[ref].offset]
  const own = (ref: Ref) => {
    const { inside, layout } = buffers[ref]
    return inside ? `ctx.local_shard(${[names.get(ref)!, ...layout.flat!.map(quote)].join(', ')})` : names.get(ref)!
  }
  const results = moves.map((_, i) => `${words.move}${moves.length > 1 ? `_${i + 1}` : ''}`)
  const given = moves.flatMap(({ in: x, out }) => (stays(out) ? [x, out] : [x]))
  return {
    segment,
    args: [given.map(ref => names.get(ref)!)],
    body: moves.map(({ in: x, out }, i) => {
      const [from, to] = [x, out].map(ref => spaceOf(roles[buffers[ref].role]))
      const into = stays(out) ? `, into=[${own(out)}]` : ''
      const call = from === 'disk' ? `from_disk([${own(x)}], to=${quote(to)})` : `to_${to}([${own(x)}]${into})`
      return `${results[i]} = ctx.${call}`
    }),
    results: [results],
    takes: given.map(slot),
    gives: moves.flatMap(({ out }) => (stays(out) ? [] : [slot(out)])),
    lists: [],
  }
}

const words: Readonly<Record<Collective['kind'], string>> = {
  'all-reduce': 'reduced',
  'reduce-scatter': 'scattered',
  'all-gather': 'gathered',
  'all-to-all': 'exchanged',
  shift: 'received',
  'all-dispatch': 'rows',
  'all-combine': 'combined',
  move: 'moved',
}

function callOf({ buffers }: Segment, instr: Collective, tensors: string): string {
  const operands = `${tensors}, ${quote(groupLabel(instr.group))}`
  if (instr.kind === 'all-reduce' && instr.combine === 'sum') return `all_reduce_bucket_(${operands})`
  if (instr.kind === 'all-to-all' && instr.from === 'addend') return `all_to_all_bucket(${operands})`
  if ((instr.kind !== 'all-gather' && instr.kind !== 'reduce-scatter') || instr.dim !== undefined)
    throw new Unwritten(`${instr.kind} that is waited for by a tag`)
  const inside = (instr.kind === 'all-gather' ? instr.ins : instr.outs).every(ref => buffers[ref].inside)
  if (instr.kind === 'reduce-scatter') {
    if (!inside) throw new Unwritten('parts that are scattered elsewhere')
    return `reduce_scatter_bucket_(${operands})`
  }
  if (inside) return `all_gather_bucket_(${operands})`
  const sizes = instr.outs.map(ref => `(${buffers[ref].dims.map(({ size }) => `${size},`).join(' ')})`)
  return `all_gather_bucket(${operands}, [${sizes.join(', ')}])`
}
