/** What of a plan's traffic over the data axes is sent in fewer bits. */
import { z } from 'zod'

export const Compression = z.strictObject({
  reduce: z.enum(['bf16', 'f16']).optional().describe('gradients, where they are summed over the data axes'),
  gather: z.enum(['bf16']).optional().describe('parameters, where ZeRO-3 gathers them'),
})

export type Compression = z.output<typeof Compression>
