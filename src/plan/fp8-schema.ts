/** Products on 8 bits: what a plan says of them. */
import { z } from 'zod'
import { scaleRules, trackingAlgos } from '../base/index.js'

/** The FP8 recipes: how the scale of a tensor is chosen before it is quantized. */
export const fp8Recipes = ['current', 'delayed', 'blocks', 'mx'] as const
export type Fp8Recipe = (typeof fp8Recipes)[number]

export const Fp8 = z.strictObject({
  recipe: z
    .enum(fp8Recipes)
    .default('current')
    .describe(
      'scaling recipe: current, amax of the tensor; delayed, amax history of earlier steps; blocks, amax per block, E4M3 throughout; mx, blocks of 32 elements, also for weights',
    ),
  block: z
    .int()
    .min(2)
    .max(2 ** 16)
    .optional()
    .describe(
      'blocks and mx: block size along the summed dim; 128 (128 x 128 for weights) or 32 with mx, as GPUs support',
    ),
  scales: z
    .enum(['powers', ...scaleRules])
    .default('powers')
    .describe(
      'scale from amax: powers, the largest power of two without overflow (RCEIL); exact, max FP8 value / amax; floor, ceil and even, the rounding modes of MX; delayed scales are exact',
    ),
  experts: z.boolean().default(false).describe('also use FP8 in the matmuls of experts'),
  history: z
    .int()
    .min(1)
    .max(2 ** 16)
    .default(1024)
    .describe('delayed: length of the amax history'),
  algo: z
    .enum(trackingAlgos)
    .default('max')
    .describe('delayed: use the maximum of the amax history, or the most recent value'),
  margin: z.int().min(0).max(64).default(0).describe('delayed: margin, in powers of two'),
})

export type Fp8 = z.infer<typeof Fp8>

/** Several scales for one tensor. */
export const inBlocks = ({ recipe }: Pick<Fp8, 'recipe'>): boolean => recipe === 'blocks' || recipe === 'mx'

/** What GPUs multiply. */
export const usualBlock = { blocks: 128, mx: 32 } as const

export const blockSize = ({ recipe, block }: Pick<Fp8, 'recipe' | 'block'>): number =>
  block ?? usualBlock[recipe === 'mx' ? 'mx' : 'blocks']
