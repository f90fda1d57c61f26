/** An instruction as the kernel it runs: the few numbers its time depends on, read off the dims of its buffers. */
import { type Dim, elementsOf } from '../base/index.js'
import type { Precision } from '../cluster/index.js'
import type { Kernel } from '../cost/index.js'
import { type Buffer, bytesPer, type Instr, type InstrKind, type Program, type Segment, traitsOf } from '../ir/index.js'

/** What a buffer's numbers are multiplied in. Whole numbers are not multiplied. */
const precisions: Readonly<Record<string, Precision>> = { f32: 'f32', bf16: 'bf16', f16: 'f16' }

export const bytesOf = ({ dims, dtype }: Buffer): number => elementsOf(dims) * bytesPer[dtype]

/** The precision most products are in: that of the first one of the forward. */
export function multipliesIn({ segments }: Program, multiply?: Precision): Precision {
  for (const segment of Object.values(segments))
    for (const instr of segment.instrs)
      if (instr.kind === 'contract') return multiply ?? precisions[segment.buffers[instr.ins[0]].dtype] ?? 'f32'
  return multiply ?? 'f32'
}

/** `multiply`: the precision of products, where it is not that of what is stored. */
export function kernelOf(instr: Instr, segment: Segment, multiply?: Precision): Kernel {
  const buffer = (ref: string): Buffer => segment.buffers[ref]
  const total = (refs: readonly string[]) => refs.reduce((sum, ref) => sum + bytesOf(buffer(ref)), 0)
  if (instr.kind === 'contract')
    return contraction(buffer(instr.ins[0]), buffer(instr.ins[1]), buffer(instr.outs[0]), multiply)
  if (instr.kind === 'attention') return attention('forward', instr.window, instr.ins.map(buffer), multiply)
  if (instr.kind === 'attentionGrad')
    return attention('backward', instr.window, instr.ins.slice(1).map(buffer), multiply)
  const { reads, writes } = traitsOf(instr)
  const picked = picks[instr.kind]
  const read = picked === undefined ? total(reads) : total(reads.filter((_, i) => i !== picked)) + total(writes)
  return { kind: 'memory', read, written: total(writes), op: instr.kind }
}

/** The operand that is looked into, not read through: no more of it is read than is written. */
const picks: Readonly<Partial<Record<InstrKind, number>>> = { embed: 1, pick: 0, slice: 0 }

/** Dims in both operands and the result repeat the product; dims missing from the result are summed. */
function contraction(a: Buffer, b: Buffer, out: Buffer, multiply?: Precision): Kernel {
  const has = ({ dims }: Buffer, { name }: Dim) => dims.some(dim => dim.name === name)
  const product = (dims: readonly Dim[], keep: (dim: Dim) => boolean) => elementsOf(dims.filter(keep))
  return {
    kind: 'matmul',
    m: product(a.dims, dim => has(out, dim) && !has(b, dim)),
    n: product(b.dims, dim => has(out, dim) && !has(a, dim)),
    k: product(a.dims, dim => !has(out, dim)),
    batch: product(a.dims, dim => has(out, dim) && has(b, dim)),
    precision: multiply ?? precisions[a.dtype] ?? 'f32',
    resultBytes: bytesPer[out.dtype],
  }
}

function attention(
  pass: 'forward' | 'backward',
  window: number | undefined,
  [q, k]: readonly Buffer[],
  multiply?: Precision,
): Kernel {
  const size = ({ dims }: Buffer, name: string) => dims.find(dim => dim.name === name)?.size ?? 1
  const keys = size(k, 'seq')
  const narrow = window !== undefined && window < keys
  return {
    ...{ kind: 'attention', pass, batch: size(q, 'batch') },
    heads: size(q, 'kvHeads') * size(q, 'group'),
    kvHeads: size(k, 'kvHeads'),
    queries: size(q, 'seq'),
    keys: narrow ? window : keys,
    headDim: size(q, 'headDim'),
    // All keys of a window are seen, but by the first queries.
    causal: !narrow,
    precision: multiply ?? precisions[q.dtype] ?? 'f32',
    generation: 'cudnn',
  }
}
