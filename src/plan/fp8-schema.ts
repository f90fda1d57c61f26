/** Products on 8 bits: what a plan says of them. */
import { z } from 'zod'
import { scaleRules, trackingAlgos } from '../base/index.js'

/** Ways to find out by what a tensor is scaled before it becomes codes. */
export const fp8Recipes = ['current', 'delayed', 'blocks', 'mx'] as const
export type Fp8Recipe = (typeof fp8Recipes)[number]

export const Fp8 = z.strictObject({
  recipe: z
    .enum(fp8Recipes)
    .default('current')
    .describe(
      'what a tensor is scaled by: current, the greatest absolute value that is in it now; delayed, those of the steps before; blocks, that of each block of it, in E4M3 throughout; mx, likewise, of blocks of 32 in a row, of weights too',
    ),
  block: z
    .int()
    .min(2)
    .max(2 ** 16)
    .optional()
    .describe(
      'blocks and mx: so many numbers along what is summed; 128, and squares of a weight, which is what GPUs multiply, or 32 with mx',
    ),
  scales: z
    .enum(['powers', ...scaleRules])
    .default('powers')
    .describe(
      'what follows from the greatest absolute value: powers, the greatest power of two that keeps all in range (RCEIL); exact, the greatest code / it; floor, ceil and even, powers of two as MX has them; delayed scales are exact',
    ),
  experts: z.boolean().default(false).describe('products of rows with the weights of experts read codes too'),
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

export type Fp8 = z.infer<typeof Fp8>

/** Several scales for one tensor. */
export const inBlocks = ({ recipe }: Pick<Fp8, 'recipe'>): boolean => recipe === 'blocks' || recipe === 'mx'

/** What GPUs multiply. */
export const usualBlock = { blocks: 128, mx: 32 } as const

export const blockSize = ({ recipe, block }: Pick<Fp8, 'recipe' | 'block'>): number =>
  block ?? usualBlock[recipe === 'mx' ? 'mx' : 'blocks']
