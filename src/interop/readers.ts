/** Who reads which framework. */
import { readDeepSpeed } from './deepspeed/read.js'
import { readMegatron } from './megatron/read.js'
import { readPicotron } from './picotron/read.js'
import type { Readers } from './note.js'

export const readers: Readers = {
  deepspeed: readDeepSpeed,
  megatron: readMegatron,
  picotron: readPicotron,
}
