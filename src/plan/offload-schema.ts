/** What a plan keeps elsewhere than on the device. */
import { z } from 'zod'
import { elsewheres, spaces } from '../base/index.js'

export const Offload = z.strictObject({
  optimizer: z
    .enum(spaces)
    .default('device')
    .describe('where master weights and moments are stored; off the device, the host updates parameters'),
  activations: z
    .enum(['none', 'layer-inputs'])
    .default('none')
    .describe('layer-inputs: offload the input activations of layers until the backward pass'),
  layerInputs: z.enum(elsewheres).default('host').describe('where they are stored'),
  parameters: z
    .enum(spaces)
    .default('device')
    .describe('ZeRO-3: where parameter shards are stored between all-gathers'),
})

export type Offload = z.output<typeof Offload>
