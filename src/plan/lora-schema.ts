/** LoRA: adapters are trained beside matrices that stay as they are. */
import { z } from 'zod'
import { adapterTargets } from '../model/index.js'

const everything = 'all-linear'

export const Lora = z.strictObject({
  rank: z.int().min(1).max(4096).default(8).describe('rank of the adapters'),
  alpha: z.number().positive().max(1e6).default(16).describe('the output of adapters is scaled by alpha / rank'),
  targets: z
    .union([z.literal(everything), z.array(z.enum(adapterTargets)).min(1)], {
      error: `expected ${everything}, or a list of ${adapterTargets.join(', ')}`,
    })
    .default(['q', 'v'])
    .describe(`matrices that get adapters: ${adapterTargets.join(', ')}; or ${everything}`),
  dropout: z.number().min(0).lt(1).default(0).describe('dropout probability of adapter inputs'),
})

export type Lora = z.output<typeof Lora>
