/** Who reads which framework. */

import { readMegatron } from './megatron/read.js'
import type { Readers } from './note.js'
import { readPicotron } from './picotron/read.js'

export const readers: Readers = {
  megatron: readMegatron,
  picotron: readPicotron,
}
