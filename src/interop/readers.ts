/** Who reads which framework. */
import { readAccelerate } from './accelerate/read.js'
import { readDeepSpeed } from './deepspeed/read.js'
import { readMegatron } from './megatron/read.js'
import { readNanotron } from './nanotron/read.js'
import type { Readers } from './note.js'
import { readPicotron } from './picotron/read.js'
import { readTorchtitan } from './torchtitan/read.js'

export const readers: Readers = {
  accelerate: readAccelerate,
  deepspeed: readDeepSpeed,
  megatron: readMegatron,
  nanotron: readNanotron,
  picotron: readPicotron,
  torchtitan: readTorchtitan,
}
