/** Options that every command takes, wherever they stand on its line. */
import type { Io } from './io.js'

/** What each says in the help. */
export const globalOptions = {
  '--quiet': 'print results, warnings and errors only',
  '--verbose': 'print more: every step of a run, stack traces of internal errors',
  '--no-color': 'no colors (also NO_COLOR=1; FORCE_COLOR=1 colors pipes)',
} as const

type GlobalOption = keyof typeof globalOptions

const isGlobal = (word: string): word is GlobalOption => Object.hasOwn(globalOptions, word)

/** The other words of a line, and the world as these options want it. */
export function withGlobalOptions(argv: readonly string[], io: Io): { readonly words: readonly string[]; io: Io } {
  const end = argv.includes('--') ? argv.indexOf('--') : argv.length
  const given = new Set(argv.slice(0, end).filter(isGlobal))
  const words = argv.filter((word, at) => at >= end || !isGlobal(word))
  const changes: Partial<Io> = {
    ...(given.has('--quiet') && { verbosity: 'quiet', progressColumns: () => undefined }),
    ...(given.has('--verbose') && { verbosity: 'verbose' }),
    ...(given.has('--no-color') && { colors: false }),
    ...(words.includes('--json') && { progressColumns: () => undefined }),
  }
  return { words, io: { ...io, ...changes } }
}
