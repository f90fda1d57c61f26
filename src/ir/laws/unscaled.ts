/** T1 of what divides gradients by the scale. */
import { sameLayout } from '../../base/index.js'
import { showShaped } from '../text/codec.js'
import { traitsOf } from '../traits.js'
import { clause } from './phrases.js'
import { unfinished } from './turns.js'
import type { Case, Type } from './type.js'

/** What is divided by a whole number lies as it did: parts of a sum are divided one by one. */
export function unscaled({ instr, operands, claimed, say }: Case): readonly Type[] | undefined {
  const { reads } = traitsOf(instr)
  const [scale, x] = operands
  const why = x && unfinished(x)
  if (why) return void say('T1', clause('T/is-but', { ref: reads[1], type: showShaped(x), why }))
  if (scale.dims.length > 0 || !sameLayout(scale.layout, { splits: {}, partial: {} }))
    return void say('T1', clause('T/scalar', { ref: reads[0], type: showShaped(scale) }))
  return claimed
}
