/** Who reads which framework. */
import { readAccelerate } from './accelerate/read.js'
import { readDeepSpeed } from './deepspeed/read.js'
import { readMegatron } from './megatron/read.js'
import { readPicotron } from './picotron/read.js'
import type { Readers } from './note.js'

export const readers: Readers = {
  accelerate: readAccelerate,
  deepspeed: readDeepSpeed,
  megatron: readMegatron,
  picotron: readPicotron,
}
