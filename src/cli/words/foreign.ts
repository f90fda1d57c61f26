/** What commands that take configurations of other frameworks as jobs share. */
import { Option } from 'commander'
import { positive } from '../text/integer.js'

export const worldOption = (): Option =>
  new Option('--world <n>', 'ranks, where the file is of another framework and does not say how many').argParser(
    positive,
  )
