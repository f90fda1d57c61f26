/** Steps and instructions in words, for errors. */
import { type Dim, failureClause, type Rank, type Reason, sayFailure } from '../base/index.js'
import type { Shape } from '../geometry/index.js'
import { type Collective, type Instr, isCollective, pairsOf, type Ref, type Step } from '../ir/index.js'

export function showStep(step: Step): string {
  if (step.kind !== 'call') return `${step.kind} ${'tag' in step ? step.tag : `frame ${step.frame}`}`
  const microbatch = step.microbatch < 0 ? '' : ` microbatch ${step.microbatch}`
  return `call ${step.segment}${microbatch}${step.param ? ` ${step.param}` : ''}`
}

export const showInstr = (instr: Instr): string => sayFailure(sayInstr(instr))

export function sayInstr(instr: Instr): Reason {
  if (isCollective(instr) && instr.outs.length > 1) {
    const [first = '', last = ''] = [instr.ins[0], instr.ins.at(-1)]
    return failureClause('.instr/several', { kind: instr.kind, tensors: instr.ins.length, first, last })
  }
  if ('ins' in instr) return `${instr.kind} ${instr.ins.join(' ')} -> ${instr.outs.join(' ')}`
  if (instr.kind === 'wait') return `wait ${instr.on}`
  if (instr.kind === 'load') return `load ${instr.input} -> ${instr.out}`
  return `${instr.kind} ${instr.in} -> ${instr.out}`
}

const showDims = (dims: readonly Dim[]) => `[${dims.map(dim => `${dim.name} ${dim.size}`).join(', ')}]`

/** Everything members of a group must agree on. Names of buffers may differ. */
export function meaningOf(collective: Collective, shape: (ref: Ref) => Shape, members: readonly Rank[]): string {
  const { kind, ins: _ins, outs: _outs, group: _group, ...how } = collective
  const pairs = pairsOf(collective).map(pair => `${showDims(shape(pair.in).dims)} -> ${showDims(shape(pair.out).dims)}`)
  return [kind, ...Object.values(how), ...pairs, 'over', ...members].join(' ')
}
