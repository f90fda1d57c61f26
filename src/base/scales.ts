/**
 * What a tensor, or a block of one, is multiplied with before it becomes codes. It follows from what is greatest there, and whoever works
 * it out finds the same bits.
 */
import { type CodeType, codeFacts } from './dtype.js'

/**
 * Ways from what is greatest to a scale, where it is not the greatest power of two that keeps all in range (RCEIL, as MX calls it).
 * `exact`: what makes it the greatest code. The others are MX's powers of two: those of the greatest power of two in it, rounded down (some
 * numbers then are out of range), up, or to the digits a code has.
 */
export const scaleRules = ['exact', 'floor', 'ceil', 'even'] as const
export type ScaleRule = (typeof scaleRules)[number]

/** Of what is not finite it is 0, and infinity times it no number: what is not finite stays so. */
export function codeScale(format: CodeType, amax: number, rule?: ScaleRule): number {
  float[0] = Math.max(amax, leastAmax)
  if (!(float[0] < Number.POSITIVE_INFINITY)) return 0
  if (rule === 'exact' || rule === undefined) {
    float[0] = codeFacts[format].greatest / float[0]
    if (!rule) bits[0] &= 0x7f800000
    return float[0]
  }
  bits[0] += addends[rule](codeFacts[format].fraction)
  return 2 ** (Math.floor(Math.log2(codeFacts[format].greatest)) - ((bits[0] >>> 23) - 127))
}

/** What brings the bits of a number to the power of two it counts as. */
const addends: Readonly<Record<Exclude<ScaleRule, 'exact'>, (fraction: number) => number>> = {
  floor: () => 0,
  ceil: () => 0x7fffff,
  even: fraction => 2 ** (22 - fraction),
}

/** What is smaller counts as this: the scale stays an f32 number. */
export const leastAmax = 2 ** -100

const float = new Float32Array(1)
const bits = new Uint32Array(float.buffer)
