/** What a plan keeps elsewhere than on the device. */
import { z } from 'zod'
import { elsewheres, spaces } from '../base/index.js'

export const Offload = z.strictObject({
  optimizer: z
    .enum(spaces)
    .default('device')
    .describe('where masters and moments live; elsewhere than on the device, the host updates parameters'),
  activations: z
    .enum(['none', 'boundaries'])
    .default('none')
    .describe('boundaries: what layers hand to each other waits elsewhere for the backward pass'),
  boundaries: z.enum(elsewheres).default('host').describe('where that waits'),
  parameters: z
    .enum(spaces)
    .default('device')
    .describe('ZeRO-3: where the parts of parameters live between their gathers'),
})

export type Offload = z.output<typeof Offload>
