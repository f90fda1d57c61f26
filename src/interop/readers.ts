/** Who reads which framework. */
import type { Readers } from './note.js'
import { readPicotron } from './picotron/read.js'

export const readers: Readers = {
  picotron: readPicotron,
}
