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
    .describe('compression of data-parallel gradient reductions'),
  gather: z.enum(['bf16', 'int8']).optional().describe('compression of ZeRO-3 parameter all-gathers'),
  rank: z.int().min(1).max(256).default(4).describe('powersgd: rank of the low-rank factors'),
  rate: z
    .number()
    .min(0.5)
    .max(1000)
    .default(2)
    .describe('powersgd: minimum compression rate; matrices below it are sent uncompressed'),
  ratio: z.number().min(1e-6).max(1).default(0.01).describe('topk: fraction of the elements of a matrix that are sent'),
  from: z
    .int()
    .min(0)
    .max(2 ** 40)
    .default(0)
    .describe('warmup: steps before this one send uncompressed gradients'),
  waiting: z.boolean().optional().describe('internal: the program of the warmup steps'),
  run: z
    .int()
    .min(1)
    .max(2 ** 20)
    .default(usualRun)
    .describe('int8: elements per quantization scale'),
  virtual: z
    .strictObject({
      ...sizes,
      zero: z.int().min(0).max(3).default(0).describe('their ZeRO stage'),
      shard: z.int().min(1).optional().describe('their HSDP shard size'),
      microbatches: z.int().min(1).default(1).describe('their microbatches'),
      exact: z.array(z.string()).default([]).describe('parameters whose gradients they send uncompressed'),
    })
    .optional()
    .describe('simulate the compression of these ranks on a single rank: int8, topk and onebit depend on the sharding'),
})

export type Compression = z.output<typeof Compression>
