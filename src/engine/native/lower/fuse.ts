/**
 * *fuse*: what an instruction can do for the next while its result is still in registers. Above all additions, by contractions. An `add` of its result with a
 * bias, a residual or other contractions, and the `accumulate` of a weight's gradient, cost a pass over memory each; a
 * matmul that starts from what is to be added costs none. The program stays as it is, and so does every value that
 * anybody else reads: what a fused matmul writes is the sum.
 *
 * The sum is then written, and what is added read, where the contraction stands: earlier than the memory plan foresaw, so
 * only where nothing in between touches those bytes. Where something does (a bias that is gathered in between), the
 * contraction may be done where the addition stood, if its own operands are still there.
 *
 * Attention to some keys starts from the output of others in the same way, and does the merge that follows it.
 */
import { type Instr, type InstrOf, type Ref, type Segment, traitsOf } from '../../../ir/index.js'
import { findMatmul, isSuffix, same } from './shapes.js'

/** What a contraction writes instead of its own result. */
export interface FusedResult {
  readonly out: Ref
  /** One number per column. */
  readonly bias?: Ref
  /** Lies as the result does; `out` itself where the product is accumulated. */
  readonly add?: Ref
}

export interface Fusion {
  readonly contractions: ReadonlyMap<Instr, FusedResult>
  /** Merges that an attention does as well. */
  readonly merges: ReadonlyMap<Instr, InstrOf<'attentionMerge'>>
  /** What is done where an instruction stands, if not itself; undefined: nothing. */
  readonly instead: ReadonlyMap<Instr, Instr | undefined>
}

/** A contraction, what it takes up so far, and where it stands. */
interface Link extends FusedResult {
  readonly at: number
  readonly instr: InstrOf<'contract'>
}

interface Touch {
  readonly reads: readonly Ref[]
  readonly writes: readonly Ref[]
}

export function fusionOf(segment: Segment): Fusion {
  const fusing = new Fusing(segment)
  for (const [at, instr] of segment.instrs.entries()) fusing.visit(instr, at)
  return fusing
}

class Fusing implements Fusion {
  readonly contractions = new Map<Instr, FusedResult>()
  readonly merges = new Map<Instr, InstrOf<'attentionMerge'>>()
  readonly instead = new Map<Instr, Instr | undefined>()
  readonly #segment: Segment
  readonly #readers = new Map<Ref, number>()
  /** What every instruction touches, as it is done by now. */
  readonly #touched: Touch[]
  /** Contractions by what they write, where only one instruction will read it. */
  readonly #links = new Map<Ref, Link>()

  constructor(segment: Segment) {
    this.#segment = segment
    this.#touched = touchesOf(segment)
    for (const instr of segment.instrs)
      for (const ref of traitsOf(instr).reads) this.#readers.set(ref, (this.#readers.get(ref) ?? 0) + 1)
  }

  visit(instr: Instr, at: number): void {
    if (instr.kind === 'contract') this.#offer({ at, instr, out: instr.outs[0] })
    else if (instr.kind === 'accumulate') this.#accumulate(instr, at)
    else if (instr.kind === 'add') this.#add(instr, at)
    else if (instr.kind === 'attentionMerge') this.#merge(instr, at)
  }

  /** What a frame of the call alone holds, and one instruction reads, nobody misses. */
  #offer(link: Link): void {
    if (this.#isOurs(link.out)) this.#links.set(link.out, link)
  }

  #isOurs(ref: Ref): boolean {
    return this.#readers.get(ref) === 1 && this.#segment.roles[this.#buffer(ref).role].name.is === 'scratch'
  }

  #accumulate(instr: InstrOf<'accumulate'>, at: number): void {
    const [[x], [out]] = [instr.ins, instr.outs]
    const link = this.#links.get(x)
    if (link && !link.add && this.#alike(x, out)) this.#replace([{ ...link, out, add: out }], instr, at)
  }

  /**
   * Of several contractions each starts from the one before, and the last writes the sum. The first can start from one
   * more matrix, the last take a bias.
   */
  #add(instr: InstrOf<'add'>, at: number): void {
    const [out] = instr.outs
    const links = instr.ins.flatMap(ref => this.#links.get(ref) ?? []).sort((a, b) => a.at - b.at)
    const others = instr.ins.filter(ref => !this.#links.has(ref))
    const last = links.at(-1)
    if (!last || new Set(instr.ins).size < instr.ins.length || !links.every(link => this.#alike(link.out, out))) return
    const matrices = [...others.filter(ref => this.#alike(ref, out)), ...links.slice(0, -1).map(link => link.out)]
    const biases = others.filter(ref => !this.#alike(ref, out))
    if (matrices.length > links.length || biases.length > 1 || !biases.every(ref => this.#isBias(ref, last))) return
    const spare = links.length - matrices.length
    const chain = links.map(
      (link, i): Link => ({
        ...link,
        ...(i >= spare ? { add: matrices[i - spare] } : {}),
        ...(link === last ? { out, ...(biases[0] ? { bias: biases[0] } : {}) } : {}),
      }),
    )
    const free = links.every(
      (link, i) => !(link.add && chain[i].add !== link.add) && !(link === last && link.bias && biases[0]),
    )
    if (free) this.#replace(chain, instr, at)
  }

  /** The attention that made the shares which are merged here, and nowhere else read, is done here and merges them. */
  #merge(instr: InstrOf<'attentionMerge'>, at: number): void {
    const { instrs } = this.#segment
    const [out, lse, ...share] = instr.ins
    const by = instrs.findLastIndex(made => made.kind === 'attention' && made.outs.join() === share.join())
    const made = instrs[by]
    if (made?.kind !== 'attention' || !share.every(ref => this.#isOurs(ref))) return
    const written = [...this.#touched.slice(by + 1, at).flatMap(({ writes }) => writes), ...instr.outs]
    if (written.some(ref => made.ins.some(operand => this.#overlap(ref, operand)))) return
    this.merges.set(made, instr)
    this.instead.set(made, undefined).set(instr, made)
    this.#touched[by] = untouched
    this.#touched[at] = { reads: [...made.ins, out, lse], writes: instr.outs }
  }

  /** Lets the links do what the instruction at `until` did, if nothing stands in the way. */
  #replace(chain: readonly Link[], instr: Instr, until: number): void {
    const last = chain[chain.length - 1]
    if (chain.every(link => this.#canMove(link, until))) this.#take(chain, instr, until)
    else if (chain.length === 1 && this.#canSink(last, until)) {
      this.#touched[last.at] = untouched
      this.#take([{ ...last, at: until }], instr, until)
      this.instead.set(this.#segment.instrs[last.at], undefined).set(instr, last.instr)
    }
  }

  #take(chain: readonly Link[], instr: Instr, until: number): void {
    this.instead.set(instr, undefined)
    this.#touched[until] = untouched
    for (const link of chain) {
      const { at, bias, add, out } = link
      this.contractions.set(link.instr, { out, ...(bias && { bias }), ...(add && { add }) })
      this.#touched[at] = { reads: [...link.instr.ins, ...addendsOf(link)], writes: [out] }
      this.#links.delete(link.instr.outs[0])
      for (const [ref, known] of this.#links) if (known.instr === link.instr) this.#links.delete(ref)
    }
    this.#offer(chain[chain.length - 1])
  }

  /** From the contraction to `until` nobody writes its operands, and the sum does not lie over them. */
  #canSink(link: Link, until: number): boolean {
    const written = [...this.#touched.slice(link.at + 1, until).flatMap(({ writes }) => writes), link.out]
    return written.every(ref => link.instr.ins.every(operand => !this.#overlap(ref, operand)))
  }

  /** Between the contraction and `until` nobody touches the sum, and nobody writes what is added. */
  #canMove(link: Link, until: number): boolean {
    const addends = addendsOf(link)
    const between = this.#touched.slice(link.at + 1, until)
    const overlaps = (refs: readonly Ref[], ref: Ref) => refs.some(other => this.#overlap(other, ref))
    return (
      !overlaps(link.instr.ins, link.out) &&
      addends.every(ref => ref === link.out || !this.#overlap(ref, link.out)) &&
      between.every(({ reads, writes }) => !overlaps(reads, link.out) && !overlaps(writes, link.out)) &&
      between.every(({ writes }) => addends.every(ref => !overlaps(writes, ref)))
    )
  }

  #buffer(ref: Ref) {
    return this.#segment.buffers[ref]
  }

  #alike(a: Ref, b: Ref): boolean {
    return same(this.#buffer(a).dims, this.#buffer(b).dims)
  }

  #isBias(ref: Ref, { instr }: Link): boolean {
    const [a, b, out, bias] = [...instr.ins, ...instr.outs, ref].map(ref => this.#buffer(ref).dims)
    return isSuffix(bias, out) && elements(bias) === findMatmul(a, b, out)?.n
  }

  #overlap(a: Ref, b: Ref): boolean {
    const [one, two] = [this.#buffer(a), this.#buffer(b)]
    const end = ({ offset, dims }: typeof one) => offset + 4 * elements(dims)
    return one.role === two.role && one.offset < end(two) && two.offset < end(one)
  }
}

const untouched: Touch = { reads: [], writes: [] }

const elements = (dims: readonly { readonly size: number }[]): number => dims.reduce((n, { size }) => n * size, 1)

const addendsOf = ({ bias, add }: FusedResult): Ref[] => [bias, add].filter(ref => ref !== undefined)

/** A collective may touch its operands from its start to its wait: at both. */
function touchesOf({ instrs }: Segment): Touch[] {
  const open = new Map<Ref, Touch>()
  return instrs.map(instr => {
    const { reads, writes, starts, finishes } = traitsOf(instr)
    if (finishes !== undefined) return open.get(finishes) ?? { reads, writes }
    if (starts) open.set(writes[0], { reads, writes })
    return { reads, writes }
  })
}
