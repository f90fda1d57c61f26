/**
 * What a compiler of kernels (torch.compile, in what `emit` writes) makes of a segment. Instructions bound by memory that
 * hand a value to each other become one kernel: what it makes for itself is neither written nor read again. The first
 * gradient of a step is kept where it was made, so nothing is cleared, and nothing added to what was cleared.
 */
import type { Mesh } from '../base/index.js'
import { bufferBytes, type Kernel, workOf } from '../cost/index.js'
import { type Instr, type InstrOf, type Program, type Ref, type Segment, traitsOf } from '../ir/index.js'

/** Operands and results of an instruction that stay inside a fused kernel. */
interface Spared {
  readonly read: readonly Ref[]
  readonly written: readonly Ref[]
}

const nothing: Spared = { read: [], written: [] }

export type SparedIn = (instr: Instr, segment: Segment) => Spared

/** The memory traffic that fusion saves, analyzed once per list of instructions, whatever the sizes. */
export function sparing(mesh: Mesh): SparedIn {
  const known = new WeakMap<readonly Instr[], ReadonlyMap<Instr, Spared>>()
  return (instr, segment) => {
    const found = known.get(segment.instrs) ?? sparedIn(mesh, segment)
    known.set(segment.instrs, found)
    return found.get(instr) ?? nothing
  }
}

/** The kernel an instruction is on its own, less what fusion spares it. */
export function fusedKernels(
  { microbatches, mesh }: Pick<Program, 'microbatches' | 'mesh'>,
  sparedOf: SparedIn = sparing(mesh),
): (instr: Instr, segment: Segment, kernel: Kernel) => Kernel {
  return (instr, segment, kernel) => {
    if (kernel.kind !== 'memory') return kernel
    if (instr.kind === 'zero' && segment.phase === 'begin') return { ...kernel, read: 0, written: 0 }
    const spared = sparedOf(instr, segment)
    const again = instr.kind === 'accumulate' ? 1 - 1 / microbatches : 1
    const left = (bytes: number, refs: readonly Ref[]) =>
      again * Math.max(0, bytes - refs.reduce((sum, ref) => sum + bufferBytes(mesh, segment.buffers[ref]), 0))
    return { ...kernel, read: left(kernel.read, spared.read), written: left(kernel.written, spared.written) }
  }
}

function sparedIn(mesh: Mesh, segment: Segment): ReadonlyMap<Instr, Spared> {
  const small = segment.instrs.map(instr => workOf(instr, segment, { mesh }).kind === 'memory' && !isAlone(instr))
  const makers = new Map<Ref, number>()
  const readers = new Map<number, Map<Ref, boolean>>()
  const read = segment.instrs.map((): Ref[] => [])
  segment.instrs.forEach((instr, at) => {
    const { reads, writes } = traitsOf(instr)
    for (const ref of reads) {
      const maker = makers.get(ref)
      if (maker === undefined) continue
      const alone = readers.get(maker)!
      const joins = small[at] && !(isScaledWhole(instr) && ref === instr.ins[0])
      alone.set(ref, (alone.get(ref) ?? true) && joins)
      if (joins && small[maker]) read[at].push(ref)
    }
    for (const ref of writes) makers.set(ref, at)
    readers.set(at, new Map())
  })
  return new Map(
    segment.instrs.map((instr, at) => {
      const kept = (ref: Ref) => !(readers.get(at)!.get(ref) && diesIn(segment, ref))
      const written = small[at] ? traitsOf(instr).writes.filter(ref => !kept(ref)) : []
      return [instr, { read: read[at], written }]
    }),
  )
}

/** What reads a tensor several times, or writes where places say, is a kernel of its own. */
const isAlone = ({ kind }: Instr): boolean => kind === 'greatest' || kind === 'scatter'

/** What is greatest in all of it must be known first: it is written, and read again. */
const isScaledWhole = (instr: Instr): instr is InstrOf<'quantize'> =>
  instr.kind === 'quantize' && !instr.blocks && instr.by === undefined

/** Scratch is there for one call only; every other role is somebody's business later. */
const diesIn = ({ buffers, roles }: Segment, ref: Ref): boolean => roles[buffers[ref].role].name.is === 'scratch'
