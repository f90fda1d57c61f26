/**
 * Notes on a rank's commands: what each instruction reads and writes, as it is done, and where that lies. Made only for those who
 * look at every result; the commands are the same with and without them.
 */
import type { DType } from '../../../base/index.js'
import { type Instr, isCollective, type Ref, traitsOf } from '../../../ir/index.js'
import { elementBytes } from '../kernels/dtypes.js'
import type { Fusion } from './fuse.js'
import { type Site, size } from './site.js'

export interface NotedTensor {
  readonly ref: Ref
  /** Byte offset, elements and what they are in. */
  readonly at: number
  readonly n: number
  readonly dtype: DType
  /** -infinity is a number of it: the logarithm of a sum of nothing. */
  readonly ofNothing: boolean
}

/** Of the last command of an instruction. */
export interface Note {
  readonly results: readonly NotedTensor[]
  /** Those that are still there when it is done. */
  readonly operands: readonly NotedTensor[]
}

/** By the index of a command. */
export interface Notes {
  readonly notes: ReadonlyMap<number, Note>
  /** What is only partly written: how many rows there are is known in the step. It is to be 0 before the command. */
  readonly cleared: ReadonlyMap<number, readonly NotedTensor[]>
}

const numbers: readonly DType[] = ['f32', 'bf16', 'f16']

/** What an instruction reads and writes. */
interface Touched {
  readonly reads: readonly Ref[]
  readonly writes: readonly Ref[]
  /** The writes that a query without keys leaves at -infinity. */
  readonly ofNothing?: Ref | undefined
  readonly starts?: readonly Ref[]
}

export class NoteWriter implements Notes {
  readonly notes = new Map<number, Note>()
  readonly cleared = new Map<number, readonly NotedTensor[]>()

  /** Of an instruction whose commands are those from `first` to before `end`; none: it is done by others, or later. */
  write(first: number, end: number, touched: Touched, site: Site): void {
    if (end === first) return
    const place = (ref: Ref): NotedTensor[] => {
      const { dtype } = site.buffer(ref)
      if (!numbers.includes(dtype) || site.lying(ref).space === 'disk') return []
      return [{ ref, at: site.lies(ref), n: size(site, ref), dtype, ofNothing: ref === touched.ofNothing }]
    }
    const results = touched.writes.flatMap(place)
    const operands = touched.reads.flatMap(place).filter(one => !results.some(result => overlap(one, result)))
    if (results.length > 0) this.notes.set(end - 1, { results, operands })
    const ragged = [...touched.writes, ...(touched.starts ?? [])].filter(ref => isRagged(site, ref)).flatMap(place)
    const free = ragged.filter(one => !touched.reads.flatMap(place).some(read => overlap(one, read)))
    if (free.length > 0) this.cleared.set(first, free)
  }
}

const isRagged = (site: Site, ref: Ref): boolean => site.shape(ref).dims.some(({ name }) => name === 'row')

const endOf = ({ at, n, dtype }: NotedTensor): number => at + n * elementBytes(dtype)
const overlap = (a: NotedTensor, b: NotedTensor): boolean => a.at < endOf(b) && b.at < endOf(a)

/** As it is done: what another instruction would have done first is part of it. */
export function touchedBy(instr: Instr, site: Site, fusion: Fusion | undefined): Touched {
  if (isCollective(instr)) return { reads: instr.ins, writes: [], starts: instr.outs }
  if (instr.kind === 'wait') return finishedBy(site.open.get(instr.on)?.instr, site)
  const { reads, writes } = traitsOf(instr)
  const sum = fusion?.sums.get(instr)
  const merge = fusion?.merges.get(instr)
  const added = [sum?.bias, sum?.add]
  const column = fusion?.columns.get(instr)
  const taken = [fusion?.norms.get(instr)?.outs, column && [column]].flatMap(refs => refs ?? [])
  const made = merge ? merge.outs : sum ? [sum.out, ...writes.slice(1)] : writes
  const isAttention = instr.kind === 'attention' || instr.kind === 'attentionMerge'
  return {
    reads: [...reads, ...added.flatMap(ref => ref ?? []), ...(merge?.ins ?? [])].filter(ref => !writes.includes(ref)),
    writes: [...made, ...taken],
    ofNothing: isAttention ? made[1] : undefined,
  }
}

/** What a collective brings when it is waited for. Codes that are unpacked as they come are nobody's yet. */
export function finishedBy(instr: Instr | undefined, site: Site): Touched {
  if (!instr || !isCollective(instr) || site.landing(instr)) return { reads: [], writes: [] }
  return { reads: instr.ins, writes: instr.outs }
}
