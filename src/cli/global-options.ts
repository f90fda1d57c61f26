/** Options that every command takes, wherever they stand on its line. */
import type { Io } from './io.js'
import { pagerOf } from './pager.js'

/** What each says in the help. */
export const globalOptions = {
  '--quiet': 'print results, warnings and errors only',
  '--verbose': 'print more: every step of a run, stack traces of internal errors',
  '--no-pager': 'print long output without a pager (also LOCKSTEP_PAGER=)',
  '--no-color': 'no colors (also NO_COLOR=1; FORCE_COLOR=1 colors pipes)',
} as const

type GlobalOption = keyof typeof globalOptions

const isGlobal = (word: string): word is GlobalOption => Object.hasOwn(globalOptions, word)

interface Given {
  readonly words: readonly string[]
  readonly io: Io
  /** undefined: none. */
  readonly pager: string | undefined
}

/** The other words of a line, and the world as these options want it. */
export function withGlobalOptions(argv: readonly string[], io: Io): Given {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length
  const given = new Set(argv.slice(0, end).filter(isGlobal))
  const words = argv.filter((word, at) => at >= end || !isGlobal(word))
  const changes: Partial<Io> = {
    ...(given.has('--quiet') && { verbosity: 'quiet', progressColumns: () => undefined }),
    ...(given.has('--verbose') && { verbosity: 'verbose' }),
    ...(given.has('--no-color') && { colors: false }),
    ...(words.includes('--json') && { progressColumns: () => undefined }),
  }
  return { words, io: { ...io, ...changes }, pager: given.has('--no-pager') ? undefined : pagerOf(io, words) }
}
