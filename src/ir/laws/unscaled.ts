/** T1 of what divides gradients by the scale. */
import { sameLayout } from '../../base/index.js'
import { showShaped } from '../text/codec.js'
import { traitsOf } from '../traits.js'
import { unfinished } from './turns.js'
import type { Case, Type } from './type.js'

/** What is divided by a whole number lies as it did: parts of a sum are divided one by one. */
export function unscaled({ instr, operands, claimed, say }: Case): readonly Type[] | undefined {
  const { reads } = traitsOf(instr)
  const [scale, x] = operands
  const why = x && unfinished(x)
  if (why) return void say('T1', `%${reads[1]} is ${showShaped(x)}; ${why}`)
  if (scale.dims.length > 0 || !sameLayout(scale.layout, { splits: {}, partial: {} }))
    return void say('T1', `%${reads[0]} must be a whole scalar, it is ${showShaped(scale)}`)
  return claimed
}
