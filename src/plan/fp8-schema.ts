/** Products on 8 bits: what a plan says of them. */
import { z } from 'zod'
import { trackingAlgos } from '../base/index.js'

/** Ways to find out by what a tensor is scaled before it becomes codes. */
export const fp8Recipes = ['current', 'delayed', 'blocks'] as const
export type Fp8Recipe = (typeof fp8Recipes)[number]

export const Fp8 = z.strictObject({
  recipe: z
    .enum(fp8Recipes)
    .default('current')
    .describe(
      'what a tensor is scaled by: current, the greatest absolute value that is in it now; delayed, those of the steps before; blocks, that of each block of it, in E4M3 throughout',
    ),
  block: z
    .int()
    .min(2)
    .max(2 ** 16)
    .default(128)
    .describe('blocks: so many numbers along what is summed, of a weight squares; GPUs multiply blocks of 128'),
  history: z
    .int()
    .min(1)
    .max(2 ** 16)
    .default(1024)
    .describe('delayed: steps whose greatest absolute value is remembered'),
  algo: z
    .enum(trackingAlgos)
    .default('max')
    .describe('delayed: the scale is that of the greatest in the history, or of the most recent'),
  margin: z.int().min(0).max(64).default(0).describe('delayed: powers of two that are left free'),
})
