/** What is being done, on a terminal only: one line that is written over and gone at the end. */
import type { Io } from '../io.js'

export const progress =
  (io: Io): ((text: string) => void) =>
  text => {
    if (io.colors) io.err(`\r\x1b[2K${text === '' ? '' : `${text} ...`}`)
  }
