/** Who reads which framework. */
import { readAccelerate } from './accelerate/read.js'
import { readDeepSpeed } from './deepspeed/read.js'
import { readMegatron } from './megatron/read.js'
import { readNanotron } from './nanotron/read.js'
import { readBridge } from './nemo/bridge.js'
import { readNemo } from './nemo/read.js'
import { readNeox } from './neox/read.js'
import type { Readers } from './note.js'
import { readPicotron } from './picotron/read.js'
import { readTorchtitan } from './torchtitan/read.js'

export const readers: Readers = {
  accelerate: readAccelerate,
  deepspeed: readDeepSpeed,
  megatron: readMegatron,
  nanotron: readNanotron,
  nemo: readNemo,
  bridge: readBridge,
  neox: readNeox,
  picotron: readPicotron,
  torchtitan: readTorchtitan,
}
