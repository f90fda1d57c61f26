/**
 * *fuse*: what an instruction can do for the next while its result is still in registers. Above all additions, by
 * contractions. An `add` of its result with a bias, a residual or other contractions, and the `accumulate` of a weight's
 * gradient, cost a pass over memory each; a matmul that starts from what is to be added costs none. So does the gradient of
 * a norm's input, which takes the gradients of its weights along. The program stays as it is, and so does every value that
 * anybody else reads: what a fused matmul writes is the sum.
 *
 * The sum is then written, and what is added read, where the contraction stands: earlier than the memory plan foresaw, so
 * only where nothing in between touches those bytes. Where something does (a bias that is gathered in between), the
 * contraction may be done where the addition stood, if its own operands are still there; or the sum lies where one of its
 * addends was planned to, if nobody needs that place before the sum was read.
 *
 * What is added to a sum over ranks, one of them adds to its share before they meet: bias and residual are alike on all.
 *
 * The gradient of a bias sums the columns of a matrix: that is done while a matmul which reads it packs it.
 *
 * Attention to some keys starts from the output of others in the same way, and does the merge that follows it.
 */
import type { Axis } from '../../../base/index.js'
import { type Instr, type InstrOf, type Ref, type Segment, traitsOf } from '../../../ir/index.js'
import { findMatmul, isSuffix } from './shapes.js'
import { Touches, untouched } from './touches.js'

/** What an instruction writes instead of its own result. */
export interface FusedResult {
  readonly out: Ref
  /** One number per column. */
  readonly bias?: Ref
  /** Lies as the result does; `out` itself where the product is accumulated. */
  readonly add?: Ref
  /** Along these axes only the first rank adds: what is written is a share of a sum over them. */
  readonly first?: readonly Axis[]
}

export type NormInputGrad = InstrOf<'layerNormInputGrad' | 'rmsNormInputGrad'>
export type NormWeightGrad = InstrOf<'layerNormWeightGrad' | 'rmsNormWeightGrad'>
/** What can start from a matrix. */
export type Summing = InstrOf<'contract'> | NormInputGrad

/** What the engine fuses in a segment. */
export interface Fusion {
  readonly sums: ReadonlyMap<Instr, FusedResult>
  /** Gradients of a norm's weights, by the gradient of its input that makes them as well. */
  readonly norms: ReadonlyMap<Instr, NormWeightGrad>
  /** Merges that an attention does as well. */
  readonly merges: ReadonlyMap<Instr, InstrOf<'attentionMerge'>>
  /** Of a contraction, gradients of biases that are sums of its right operand's columns: what they are accumulated in. */
  readonly columns: ReadonlyMap<Instr, Ref>
  /** What is done where an instruction stands, if not itself; undefined: nothing. */
  readonly instead: ReadonlyMap<Instr, Instr | undefined>
  /** Results that lie where another buffer was planned to. */
  readonly places: ReadonlyMap<Ref, Ref>
}

/** An instruction that sums, what it takes up so far, and where it stands. */
interface Link extends FusedResult {
  readonly at: number
  readonly instr: Summing
  /** The sum over ranks that its result goes through, from where it stands. */
  readonly through?: { readonly at: number; readonly instr: InstrOf<'all-reduce'> }
}

/**
 * Finds the fusions of a segment: residual additions, bias gradients and norm gradients done by the matmul or kernel
 * next to them.
 */
export function fusionOf(segment: Segment): Fusion {
  const fusing = new Fusing(segment)
  for (const [at, instr] of segment.instrs.entries()) fusing.visit(instr, at)
  return fusing
}

class Fusing implements Fusion {
  readonly sums = new Map<Instr, FusedResult>()
  readonly norms = new Map<Instr, NormWeightGrad>()
  readonly merges = new Map<Instr, InstrOf<'attentionMerge'>>()
  readonly columns = new Map<Instr, Ref>()
  readonly instead = new Map<Instr, Instr | undefined>()
  readonly #segment: Segment
  readonly #readers = new Map<Ref, number>()
  readonly #touches: Touches
  /** What sums, by what it writes, where only one instruction will read it. */
  readonly #links = new Map<Ref, Link>()

  constructor(segment: Segment) {
    this.#segment = segment
    this.#touches = new Touches(segment)
    for (const instr of segment.instrs)
      for (const ref of traitsOf(instr).reads) this.#readers.set(ref, (this.#readers.get(ref) ?? 0) + 1)
  }

  get places(): ReadonlyMap<Ref, Ref> {
    return this.#touches.places
  }

  visit(instr: Instr, at: number): void {
    if (instr.kind === 'contract') this.#sumColumns(instr, at)
    if (isSumming(instr)) this.#offer({ at, instr, out: instr.outs[0] })
    else if (instr.kind === 'accumulate') this.#accumulate(instr, at)
    else if (instr.kind === 'add') this.#add(instr, at)
    else if (instr.kind === 'all-reduce') this.#meet(instr, at)
    else if (instr.kind === 'attentionMerge') this.#merge(instr, at)
    else if (instr.kind === 'layerNormWeightGrad' || instr.kind === 'rmsNormWeightGrad') this.#weights(instr, at)
  }

  /** What a frame of the call alone holds, and one instruction reads, nobody misses. */
  #offer(link: Link): void {
    if (this.#isOurs(link.out)) this.#links.set(link.out, link)
  }

  #isOurs(ref: Ref): boolean {
    return this.#readers.get(ref) === 1 && this.#isScratch(ref)
  }

  #isScratch(ref: Ref): boolean {
    return this.#segment.roles[this.#buffer(ref).role].name.is === 'scratch'
  }

  #accumulate(instr: InstrOf<'accumulate'>, at: number): void {
    const [[x], [out]] = [instr.ins, instr.outs]
    const link = this.#links.get(x)
    if (link && !link.add && !link.through && this.#touches.alike(x, out))
      this.#replace([{ ...link, out, add: out }], instr, at)
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
    const alike = (ref: Ref) => this.#touches.alike(ref, out)
    if (!last || new Set(instr.ins).size < instr.ins.length || !links.every(link => alike(link.out))) return
    const matrices = [...others.filter(alike), ...links.slice(0, -1).map(link => link.out)]
    const biases = others.filter(ref => !alike(ref))
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
    if (!free) return
    if (!links.some(({ through }) => through)) this.#replace(chain, instr, at)
    else if (links.length === 1) this.#addBefore(chain[0], links[0].out, instr, at)
  }

  /** Behind a sum over ranks its operand is still a contraction's, to which one of them may add. */
  #meet(instr: InstrOf<'all-reduce'>, at: number): void {
    const [[x], [out]] = [instr.ins, instr.outs]
    const link = this.#links.get(x)
    if (link?.instr.kind !== 'contract' || link.add || link.bias) return
    if (instr.ins.length > 1 || instr.combine !== 'sum') return
    this.#links.delete(x)
    this.#offer({ ...link, out, through: { at, instr } })
  }

  /** The first rank adds before they meet, and the sum over ranks is written where the addition would have written. */
  #addBefore(link: Link, met: Ref, instr: Instr, until: number): void {
    const { at, through } = link
    if (!through) return
    const [share] = link.instr.outs
    const [total] = through.instr.outs
    const addends = addendsOf(link)
    const overlap = (a: Ref, b: Ref) => this.#touches.overlap(a, b)
    const own = this.#touches.at(through.at)
    const others = this.#touches.between(through.at, until).filter(touch => touch !== own)
    const isFree =
      addends.every(ref => !overlap(ref, share)) &&
      this.#touches.between(at, until).every(({ writes }) => !writes.some(w => addends.some(ref => overlap(w, ref)))) &&
      (!overlap(share, link.out) || this.#touches.coincide(share, link.out)) &&
      others.every(({ reads, writes }) => ![...reads, ...writes].some(ref => overlap(ref, link.out)))
    if (!isFree) return
    const { bias, add } = link
    const first = through.instr.group.axes
    this.sums.set(link.instr, { out: share, ...(bias && { bias }), ...(add && { add }), first })
    this.#touches.places.set(total, link.out)
    this.#touches.set(at, { reads: [...link.instr.ins, ...addends], writes: [share] })
    this.#touches.set(until, untouched)
    this.instead.set(instr, undefined)
    this.#links.delete(met)
    this.#offer(link)
  }

  /** The sum, and what it is accumulated in, stand before the contraction: nobody may want either of them in between. */
  #sumColumns(instr: InstrOf<'contract'>, at: number): void {
    const { instrs } = this.#segment
    const [a, b, out] = [...instr.ins, ...instr.outs].map(ref => this.#buffer(ref).dims)
    const matmul = findMatmul(a, b, out)
    if (!matmul || matmul.batch > 1 || matmul.transB) return
    const x = instr.ins[matmul.swap ? 0 : 1]
    const before = instrs.slice(0, at)
    const by = before.findLastIndex(made => made.kind === 'sumTo' && made.ins[0] === x && !this.instead.has(made))
    const sum = instrs[by]
    if (sum?.kind !== 'sumTo' || !this.#isOurs(sum.outs[0])) return
    const until = before.findIndex(next => next.kind === 'accumulate' && next.ins[0] === sum.outs[0])
    const added = instrs[until]
    if (added?.kind !== 'accumulate' || !this.#touches.alike(sum.outs[0], added.outs[0])) return
    const dims = this.#buffer(sum.outs[0]).dims
    if (!isSuffix(dims, this.#buffer(x).dims) || elements(dims) !== matmul.n) return
    const [grad] = added.outs
    const own = this.#touches.at(at)
    const touched = [own, ...this.#touches.between(until, at)].flatMap(({ reads, writes }) => [...reads, ...writes])
    const written = this.#touches.between(by, at).flatMap(({ writes }) => writes)
    const overlaps = (refs: readonly Ref[], ref: Ref) => refs.some(other => this.#touches.overlap(other, ref))
    if (overlaps(touched, grad) || overlaps(written, x)) return
    this.columns.set(instr, grad)
    for (const [done, place] of [
      [sum, by],
      [added, until],
    ] as const) {
      this.instead.set(done, undefined)
      this.#touches.set(place, untouched)
    }
    this.#touches.set(at, { reads: [...own.reads, grad], writes: [...own.writes, grad] })
  }

  /** The attention that made the shares which are merged here, and nowhere else read, is done here and merges them. */
  #merge(instr: InstrOf<'attentionMerge'>, at: number): void {
    const { instrs } = this.#segment
    const [out, lse, ...share] = instr.ins
    const by = instrs.findLastIndex(made => made.kind === 'attention' && made.outs.join() === share.join())
    const made = instrs[by]
    if (made?.kind !== 'attention' || !share.every(ref => this.#isOurs(ref))) return
    const written = [...this.#touches.between(by, at).flatMap(({ writes }) => writes), ...instr.outs]
    if (written.some(ref => made.ins.some(operand => this.#touches.overlap(ref, operand)))) return
    this.merges.set(made, instr)
    this.instead.set(made, undefined).set(instr, made)
    this.#touches.set(by, untouched)
    this.#touches.set(at, { reads: [...made.ins, out, lse], writes: instr.outs })
  }

  /** The gradients of a norm's weights read what that of its input reads: they are made with it, if it has been made. */
  #weights(instr: NormWeightGrad, at: number): void {
    const { instrs } = this.#segment
    const [dy, x] = instr.ins
    const reads = (made: Instr) => isNormGrad(made) && made.ins[0] === dy && made.ins[1] === x && made.eps === instr.eps
    const by = instrs.slice(0, at).findLastIndex(reads)
    const made = instrs[by]
    if (!made || !isNormGrad(made) || this.instead.has(made)) return
    const own = this.#touches.at(by)
    const touched = [own, ...this.#touches.between(by, at)].flatMap(({ reads, writes }) => [...reads, ...writes])
    const written = [own, ...this.#touches.between(by, at)].flatMap(({ writes }) => writes)
    if (instr.outs.some(ref => touched.some(other => this.#touches.overlap(ref, other)))) return
    if (written.some(ref => [dy, x].some(operand => this.#touches.overlap(ref, operand)))) return
    this.norms.set(made, instr)
    this.instead.set(instr, undefined)
    this.#touches.set(by, { reads: own.reads, writes: [...own.writes, ...instr.outs] })
    this.#touches.set(at, untouched)
  }

  /** Lets the links do what the instruction at `until` did, if nothing stands in the way. */
  #replace(chain: readonly Link[], instr: Instr, until: number): void {
    const last = chain[chain.length - 1]
    if (chain.every(link => this.#canMove(link, until))) this.#take(chain, instr, until)
    else if (chain.length === 1 && this.#canSink(last, until)) {
      this.#touches.set(last.at, untouched)
      this.#take([{ ...last, at: until }], instr, until)
      this.instead.set(this.#segment.instrs[last.at], undefined).set(instr, last.instr)
    } else if (this.#findPlace(chain, until)) this.#take(chain, instr, until)
  }

  #take(chain: readonly Link[], instr: Instr, until: number): void {
    this.instead.set(instr, undefined)
    this.#touches.set(until, untouched)
    for (const link of chain) {
      const { at, bias, add, out } = link
      this.sums.set(link.instr, { out, ...(bias && { bias }), ...(add && { add }) })
      const column = this.columns.get(link.instr)
      const more = [...(this.norms.get(link.instr)?.outs ?? []), ...(column === undefined ? [] : [column])]
      this.#touches.set(at, { reads: [...link.instr.ins, ...addendsOf(link), ...more], writes: [out, ...more] })
      this.#links.delete(link.instr.outs[0])
      for (const [ref, known] of this.#links) if (known.instr === link.instr) this.#links.delete(ref)
    }
    this.#offer(chain[chain.length - 1])
  }

  /** From the contraction to `until` nobody writes its operands, or what it has taken up before, and the sum does not lie over them. */
  #canSink(link: Link, until: number): boolean {
    const written = [...this.#touches.between(link.at, until).flatMap(({ writes }) => writes), link.out]
    const taken = this.sums.get(link.instr)
    const read = [...link.instr.ins, ...(taken ? addendsOf(taken) : [])]
    return (
      !this.norms.has(link.instr) &&
      !this.columns.has(link.instr) &&
      written.every(ref => read.every(operand => !this.#touches.overlap(ref, operand)))
    )
  }

  /** Between the contraction and `until` nobody touches the sum, and nobody writes what is added. */
  #canMove(link: Link, until: number): boolean {
    const addends = addendsOf(link)
    const between = this.#touches.between(link.at, until)
    const overlaps = (refs: readonly Ref[], ref: Ref) => refs.some(other => this.#touches.overlap(other, ref))
    const lies = (ref: Ref) => this.#touches.coincide(ref, link.out) || !this.#touches.overlap(ref, link.out)
    return (
      (isNormGrad(link.instr) ? link.instr.ins.every(lies) : !overlaps(link.instr.ins, link.out)) &&
      addends.every(lies) &&
      between.every(({ reads, writes }) => !overlaps(reads, link.out) && !overlaps(writes, link.out)) &&
      between.every(({ writes }) => addends.every(ref => !overlaps(writes, ref)))
    )
  }

  /** Lays the sum where one of those who make it would have written, if it can stay there until it was read. */
  #findPlace(chain: readonly Link[], until: number): boolean {
    const { out } = chain[chain.length - 1]
    const { places } = this.#touches
    if (!this.#isScratch(out)) return false
    const stays = () =>
      this.#touches
        .between(until, this.#touches.lastRead(out) + 1)
        .every(({ writes }) => writes.every(ref => ref === out || !this.#touches.overlap(ref, out)))
    const found = chain
      .map(({ instr }) => instr.outs[0])
      .findLast(ref => {
        places.set(out, ref)
        return stays() && chain.every(link => this.#canMove(link, until))
      })
    if (found === undefined) places.delete(out)
    return found !== undefined
  }

  #buffer(ref: Ref) {
    return this.#segment.buffers[ref]
  }

  #isBias(ref: Ref, { instr }: Link): boolean {
    const [a, b, out, bias] = [...instr.ins, ...instr.outs, ref].map(ref => this.#buffer(ref).dims)
    return instr.kind === 'contract' && isSuffix(bias, out) && elements(bias) === findMatmul(a, b, out)?.n
  }
}

const isNormGrad = (instr: Instr): instr is NormInputGrad =>
  instr.kind === 'layerNormInputGrad' || instr.kind === 'rmsNormInputGrad'

const isSumming = (instr: Instr): instr is Summing => instr.kind === 'contract' || isNormGrad(instr)

const elements = (dims: readonly { readonly size: number }[]): number => dims.reduce((n, { size }) => n * size, 1)

const addendsOf = ({ bias, add }: FusedResult): Ref[] => [bias, add].filter(ref => ref !== undefined)
