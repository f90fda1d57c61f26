/** The lines of an RMS norm's gradients: where a segment makes both, one pass over memory does, and adds the residual. */
import { type Instr, type InstrOf, type Ref, type Segment, traitsOf } from '../ir/index.js'
import { call, dtypeOf, rows, type Site } from './expressions.js'
import { inWritingOrder, type Lines } from './fused-lines.js'
import { isPassing } from './fused-matmuls.js'
import { quote } from './python.js'

export function normGradLines(segment: Segment): (readonly [Instr, Lines])[] {
  const instrs = inWritingOrder(segment)
  return instrs.flatMap((input, at) => {
    if (input.kind !== 'rmsNormInputGrad') return []
    const weights = instrs.slice(at).find(instr => isOther(input, instr))
    if (weights?.kind !== 'rmsNormWeightGrad') return []
    const sum = sumOf(segment, input, instrs)
    return [
      [input, site => bothLines(site, input, weights, sum)],
      [weights, () => []],
      ...(sum ? [[sum, () => []] as const] : []),
    ] satisfies (readonly [Instr, Lines])[]
  })
}

/** The gain's gradient for the same rows. */
const isOther = (input: InstrOf<'rmsNormInputGrad'>, instr: Instr): boolean =>
  instr.kind === 'rmsNormWeightGrad' && instr.ins.join() === input.ins.slice(0, 2).join() && instr.eps === input.eps

/** What is added to the gradient of the rows, and nothing else reads; all that is added is there already. */
function sumOf(
  segment: Segment,
  { outs: [slope] }: InstrOf<'rmsNormInputGrad'>,
  instrs: readonly Instr[],
): InstrOf<'add'> | undefined {
  const { buffers } = segment
  const sum = instrs.find(instr => instr.kind === 'add' && instr.ins.includes(slope))
  if (sum?.kind !== 'add' || sum.ins.length !== 2 || !isPassing(segment, slope)) return undefined
  const like = (ref: Ref) => JSON.stringify([buffers[ref].dtype, buffers[ref].dims])
  const made = instrs.findIndex(instr => traitsOf(instr).writes.includes(slope))
  const later = new Set(instrs.slice(made).flatMap(instr => traitsOf(instr).writes))
  const [plus] = sum.ins.filter(ref => ref !== slope)
  return plus !== undefined && !later.has(plus) && [plus, ...sum.outs].every(ref => like(ref) === like(slope))
    ? sum
    : undefined
}

function bothLines(
  site: Site,
  input: InstrOf<'rmsNormInputGrad'>,
  weights: InstrOf<'rmsNormWeightGrad'>,
  sum: InstrOf<'add'> | undefined,
): string[] {
  const [, x, gain] = input.ins
  const scale = site.scale(input, { eps: input.eps, ...rows(site.dims(x), site.dims(gain)) })
  const [out, own] = [(sum ?? input).outs[0], weights.outs[0]]
  const plus = sum?.ins.find(ref => ref !== input.outs[0])
  const operands = [...input.ins.map(site.name), scale.name]
  const both = call('rms_norm_grads', operands, plus === undefined ? {} : { add: site.name(plus) })
  const { dtype } = site.buffer(own)
  const cast = `${site.result(own)} = ops.cast(${site.result(own)}, ${quote(dtype)})`
  return [
    ...scale.lines,
    `${site.result(out)}, ${site.result(own)} = ${both}`,
    ...(dtype === dtypeOf(site, weights, 0) ? [] : [cast]),
  ]
}
