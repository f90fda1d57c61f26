/** T1, T3 and T5 of what follows the greatest of a step: candidates of microbatches and ranks are compared, never added up. */
import { type Combine, sameLayout } from '../../base/index.js'
import type { Instr, InstrOf } from '../instr.js'
import { showShaped } from '../text/codec.js'
import { traitsOf } from '../traits.js'
import { clause } from './phrases.js'
import type { Case, Say, Type } from './type.js'

/** Whether addends are added up and candidates compared. */
export function combines(instr: Instr, { layout }: Type, say: Say): boolean {
  if (instr.kind !== 'accumulate') return true
  const combine: Combine = instr.combine ?? 'sum'
  const other = Object.values(layout.partial).find(found => found !== combine)
  if (other) say('T1', clause('T/combine', { ref: instr.ins[0], other, combine }))
  return other === undefined
}

/** All that it reads and writes is the same on every rank. */
export function tracked({ instr, operands, claimed, say }: Case<InstrOf<'track'>>): readonly Type[] | undefined {
  const { reads } = traitsOf(instr)
  const odd = operands.findIndex(({ layout }) => !sameLayout(layout, { splits: {}, partial: {} }))
  if (odd >= 0)
    return void say(
      odd === 0 ? 'T5' : 'T1',
      clause('T/not-whole', { ref: reads[odd], type: showShaped(operands[odd]) }),
    )
  const [scale, history] = claimed
  const fits = scale.dims.length === 0 && operands[0].dims.length === 0 && operands[1].dims.length === 0
  if (!fits || history.dims.length !== 1) return void say('T3', clause('T/history'))
  return claimed.map(({ dtype, dims }) => ({ dtype, dims, layout: { splits: {}, partial: {} } }))
}
