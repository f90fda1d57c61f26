/** Words to flags and their values, by Megatron's rules: `--flag value`, `--flag=value`, lists up to the next flag. */
import { isUnknown } from '../shell/index.js'
import { type Flag, flagNamed, nameOf } from './flags.js'

export type FlagValue = true | string | readonly string[]

export interface Flags {
  /** By name, without dashes; the last one counts. */
  readonly values: ReadonlyMap<string, FlagValue>
  readonly remarks: readonly { readonly name: string; readonly message: string }[]
}

/** `-1` and `-.5` are values. */
const isFlag = (word: string): boolean => /^--?[A-Za-z]/.test(word)
const isBoolean = (word: string | undefined): boolean => word !== undefined && /^(true|false)$/i.test(word)

export function flagsOf(argv: readonly string[]): Flags {
  const values = new Map<string, FlagValue>()
  const remarks: { name: string; message: string }[] = []
  for (let at = 0; at < argv.length; ) {
    const word = argv[at++] ?? ''
    if (!isFlag(word)) continue
    const cut = word.indexOf('=')
    const name = nameOf(cut < 0 ? word : word.slice(0, cut))
    const given: string[] = cut < 0 ? [] : [word.slice(cut + 1)]
    while (at < argv.length && !isFlag(argv[at] ?? '')) given.push(argv[at++] ?? '')
    const { value, message } = valueFrom(flagNamed(name), given)
    if (value !== undefined) values.set(name, value)
    if (message) remarks.push({ name, message })
  }
  return { values, remarks }
}

/** The schedule of batches falls apart where its variable is not quoted; its words are put together again. */
function valueFrom(flag: Flag | undefined, given: readonly string[]): { value?: FlagValue; message?: string } {
  const [first, ...others] = given
  const strays = (words: readonly string[]) =>
    words.length === 0
      ? {}
      : { message: `\`${words.join(' ').slice(0, 60)}\` is not an argument of it: Megatron would reject it` }
  if (!flag) return { value: given.length > 1 ? given : (first ?? true) }
  if (flag.arity === 'several') return first === undefined ? { message: 'it has no value' } : { value: given }
  if (flag.arity === 'none')
    return isBoolean(first) ? { value: first ?? true, ...strays(others) } : { value: true, ...strays(given) }
  if (first === undefined) return { message: 'it has no value: a variable that is not set?' }
  const isSchedule = others.length > 0 && given.every(word => /^[\d.]+[KMBT]?:\d+$/i.test(word))
  return { value: isSchedule ? given.join(' ') : first, ...strays(others) }
}

/** Only a run would know the value. */
export const isOpen = (value: FlagValue): boolean =>
  value !== true && (typeof value === 'string' ? isUnknown(value) : value.some(isUnknown))
