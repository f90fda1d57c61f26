/** What of a plan's traffic over the data axes is sent in fewer bits. */
import { z } from 'zod'
import { type MeshAxis, meshAxes, usualRun } from '../base/index.js'

const ranks = z
  .int()
  .min(1)
  .max(2 ** 16)
  .default(1)
const sizes = Object.fromEntries([...meshAxes, 'etp'].map(axis => [axis, ranks])) as Record<
  MeshAxis | 'etp',
  typeof ranks
> // all of them

export const Compression = z.strictObject({
  reduce: z
    .enum(['bf16', 'f16', 'int8', 'powersgd', 'topk', 'onebit'])
    .optional()
    .describe('gradients, where they are summed over the data axes'),
  gather: z.enum(['bf16', 'int8']).optional().describe('parameters, where ZeRO-3 gathers them'),
  rank: z.int().min(1).max(256).default(4).describe('powersgd: columns of the two factors of a matrix'),
  rate: z
    .number()
    .min(0.5)
    .max(1000)
    .default(2)
    .describe('powersgd: so many times fewer numbers must factors be than their matrix'),
  ratio: z.number().min(1e-6).max(1).default(0.01).describe('topk: the share of numbers that a rank sends of a matrix'),
  from: z
    .int()
    .min(0)
    .max(2 ** 40)
    .default(0)
    .describe('steps before this one send gradients as they are'),
  waiting: z.boolean().optional().describe('the program of those steps: it keeps what a later one remembers, as it is'),
  run: z
    .int()
    .min(1)
    .max(2 ** 20)
    .default(usualRun)
    .describe('int8: numbers that share a unit'),
  virtual: z
    .strictObject({
      ...sizes,
      zero: z.int().min(0).max(3).default(0).describe('their ZeRO stage'),
      microbatches: z
        .int()
        .min(1)
        .default(1)
        .describe('theirs: each of them is one for every rank that has sequences of its own'),
      exact: z.array(z.string()).default([]).describe('parameters whose gradients they send as they are'),
    })
    .optional()
    .describe('one rank does to numbers what so many ranks would: int8, topk and onebit depend on how they are cut'),
})

export type Compression = z.output<typeof Compression>
