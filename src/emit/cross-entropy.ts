/**
 * The product with the classes, the loss and its gradients, as one line that works on a few tokens at a time; over the
 * ranks of tp, which own the classes in parts, too.
 */
import { type Collective, type Instr, type InstrOf, type Ref, type Segment, traitsOf } from '../ir/index.js'
import { call, dtypeOf, groupLabel, namesIn, ownedFrom, type Site } from './expressions.js'
import { quote } from './python.js'

export interface CrossEntropy {
  /** Where the one line stands. */
  readonly loss: InstrOf<'tokenLoss'>
  readonly logits: InstrOf<'contract'>
  readonly slope: InstrOf<'tokenLossGrad'>
  readonly input: InstrOf<'contract'>
  readonly weights: InstrOf<'contract'>
  /** All that the line does. */
  readonly instrs: ReadonlySet<Instr>
  /** Who owns the other classes. */
  readonly reduced?: Collective
}

export function crossEntropyIn(segment: Segment): CrossEntropy | undefined {
  const { instrs } = segment
  const chain = new Chain(segment)
  const slope = instrs.find(instr => instr.kind === 'tokenLossGrad')
  if (slope?.kind !== 'tokenLossGrad') return undefined
  const logits = chain.maker(slope.ins[0], 'contract')
  if (!logits) return undefined
  const [greatest, sums, picked] = [
    chain.reader(slope.ins[0], 'maxOver'),
    chain.reader(slope.ins[0], 'sumExp'),
    chain.reader(slope.ins[0], 'pick'),
  ]
  const loss = instrs.find(instr => instr.kind === 'tokenLoss')
  if (!greatest || !sums || !picked || loss?.kind !== 'tokenLoss') return undefined
  const input = chain.reader(slope.outs[0], 'contract', ({ ins }) => ins[0] === slope.outs[0])
  const weights = chain.reader(slope.outs[0], 'contract', ({ ins }) => ins[1] === slope.outs[0])
  if (!input || !weights) return undefined
  const reduced = [greatest, sums, picked].map(({ outs: [out] }) => chain.reduced(out))
  const [a, b, c] = [greatest, sums, picked].map(({ outs: [out] }, i) => reduced[i]?.outs[0] ?? out)
  const isIt =
    loss.ins.join() === [a, b, c, slope.ins[3]].join() &&
    slope.ins.slice(1, 3).join() === [a, b].join() &&
    sums.ins[1] === a &&
    input.ins[1] === logits.ins[1] &&
    weights.ins[0] === logits.ins[0] &&
    chain.readers(slope.ins[0]) === 4 &&
    chain.readers(slope.outs[0]) === 2 &&
    reduced.every(one => groupOf(one) === groupOf(reduced[0])) &&
    fits(segment, logits, input, weights)
  if (!isIt) return undefined
  const collectives = reduced.flatMap(one => (one ? [one] : []))
  const waits = instrs.filter(instr => instr.kind === 'wait' && collectives.some(({ outs }) => outs.includes(instr.on)))
  const all = [logits, greatest, sums, picked, loss, slope, input, weights, ...collectives, ...waits]
  return {
    ...{ loss, logits, slope, input, weights },
    instrs: new Set(all),
    ...(reduced[0] && { reduced: reduced[0] }),
  }
}

const groupOf = (one: Collective | undefined): string => (one ? groupLabel(one.group) : '')

/** [tokens embed] [classes embed] -> [tokens classes], and gradients as their values. */
function fits(
  { buffers }: Segment,
  logits: InstrOf<'contract'>,
  input: InstrOf<'contract'>,
  weights: InstrOf<'contract'>,
): boolean {
  const dims = (ref: Ref) => buffers[ref].dims
  const [x, table] = logits.ins.map(dims)
  const [classes, embed] = table
  const made = [...x.slice(0, -1), classes]
  return (
    table.length === 2 &&
    namesIn(x.slice(-1)) === namesIn([embed]) &&
    namesIn(dims(logits.outs[0])) === namesIn(made) &&
    namesIn(dims(input.outs[0])) === namesIn(x) &&
    namesIn(dims(weights.outs[0])) === namesIn(table) &&
    buffers[input.outs[0]].dtype === buffers[logits.ins[0]].dtype &&
    buffers[logits.outs[0]].dtype === buffers[logits.ins[0]].dtype
  )
}

/** Who makes and who reads a segment's values. */
class Chain {
  readonly #instrs: Segment['instrs']
  constructor({ instrs }: Segment) {
    this.#instrs = instrs
  }

  maker<K extends Instr['kind']>(ref: Ref, kind: K): InstrOf<K> | undefined {
    const made = this.#instrs.filter(instr => traitsOf(instr).writes.includes(ref))
    return made.length === 1 && made[0].kind === kind ? (made[0] as InstrOf<K>) : undefined // by its kind
  }

  reader<K extends Instr['kind']>(
    ref: Ref,
    kind: K,
    is: (instr: InstrOf<K>) => boolean = () => true,
  ): InstrOf<K> | undefined {
    const isOne = (instr: Instr): instr is InstrOf<K> => instr.kind === kind && traitsOf(instr).reads.includes(ref)
    return this.#instrs.filter(isOne).find(is)
  }

  readers(ref: Ref): number {
    return this.#instrs.filter(instr => traitsOf(instr).reads.includes(ref)).length
  }

  /** The collective that makes a sum, or a maximum, of a partial one. */
  reduced(ref: Ref): InstrOf<'all-reduce'> | undefined {
    return this.reader(ref, 'all-reduce')
  }
}

export function crossEntropyLine(site: Site, { loss, logits, slope, input, weights, reduced }: CrossEntropy): string[] {
  const [x, table] = logits.ins
  const [, , , labels, count] = slope.ins
  const { dtype } = site.buffer(weights.outs[0])
  const options = {
    ...ownedFrom(site, logits.outs[0], site.dims(labels)),
    dtype: dtype === dtypeOf(site, weights, 0) ? undefined : quote(dtype),
    ...(reduced && { ctx: 'ctx', group: site.group(reduced.group) }),
  }
  const results = [loss, input, weights].map(({ outs: [out] }) => site.result(out))
  return [`${results.join(', ')} = ${call('cross_entropy', [x, table, labels, count].map(site.name), options)}`]
}
