/** `$(command)`: nothing is run; a few commands say what they would print, and one counts GPUs. */
import { parseScript } from './parse.js'
import { isUnknown, type State } from './state.js'
import type { Command, Word } from './syntax.js'

/** How words are expanded, by who asks. */
export interface Expanding {
  readonly fields: (word: Word, state: State) => string[]
  readonly number: (text: string, state: State) => number | undefined
}

/** What a node has where a script asks it: nearly all that Megatron runs on. */
export const usualDevices = 8

const countsDevices = /device_count\s*\(|nvidia-smi|rocm-smi|CUDA_VISIBLE_DEVICES/

export function substituted(
  { text, line }: { readonly text: string; readonly line: number },
  state: State,
  by: Expanding,
): string {
  state.spend(10)
  const asked = text.trim()
  if (countsDevices.test(asked) && /device_count|wc\s+-l|query-gpu=count/.test(asked)) {
    state.remark(line, `\`${asked}\` is assumed to be ${usualDevices}: devices of a node`)
    return String(usualDevices)
  }
  const printed = state.within(() => {
    const { script } = parseScript(asked.length > 10_000 ? '' : asked, line)
    return script.length === 1 && script[0] ? printedBy(script[0], state, by) : undefined
  })
  return printed ?? state.unknown(`$(${asked.replaceAll('\uE000', '').slice(0, 80)})`)
}

function printedBy(command: Command, state: State, by: Expanding): string | undefined {
  if (command.kind === 'and' && wordsOf(command.left, state, by)[0] === 'cd') return printedBy(command.right, state, by)
  if (command.kind === 'pipe' && command.commands.length === 2) {
    const [first, second] = command.commands
    const [program] = second ? wordsOf(second, state, by) : []
    const input = first && program === 'bc' ? printedBy(first, state, by) : undefined
    return input === undefined ? undefined : numberText(by.number(input, state))
  }
  if (command.kind === 'group' && command.body[0]) return undefined
  return command.kind === 'simple' && command.redirects.length === 0
    ? printed(wordsOf(command, state, by), state, by)
    : undefined
}

const wordsOf = (command: Command, state: State, by: Expanding): string[] =>
  command.kind === 'simple' ? command.words.flatMap(word => by.fields(word, state)) : []

const numberText = (value: number | undefined) => (value === undefined ? undefined : String(value))

/** What these print; undefined: not known. */
function printed([program, ...args]: readonly string[], state: State, by: Expanding): string | undefined {
  if (args.some(isUnknown)) return undefined
  const [path = ''] = args.filter(arg => !arg.startsWith('-'))
  switch (program) {
    case 'pwd':
      return '.'
    case 'echo':
      return args.filter((arg, i) => i > 0 || arg !== '-n').join(' ')
    case 'expr':
      return numberText(by.number(args.join(' ').replaceAll('\\', ''), state))
    case 'realpath':
    case 'readlink':
      return path
    case 'dirname':
      return path.includes('/') ? path.replace(/\/[^/]*\/?$/, '') || '/' : '.'
    case 'basename': {
      const name = path.replace(/\/$/, '').replace(/^.*\//, '')
      const suffix = args[1] ?? ''
      return suffix && name.endsWith(suffix) ? name.slice(0, -suffix.length) : name
    }
    case 'cat':
      return state.files.get(path)
    case 'seq':
      return counted(args.map(Number))
    default:
      return undefined
  }
}

function counted(numbers: readonly number[]): string | undefined {
  const [from, step, to] =
    numbers.length === 3 ? numbers : [numbers.length === 2 ? (numbers[0] ?? 1) : 1, 1, numbers.at(-1)]
  if (from === undefined || step === undefined || to === undefined || !(step > 0) || !((to - from) / step < 10_000))
    return undefined
  const count = Math.floor((to - from) / step) + 1
  return Array.from({ length: Math.max(0, count) }, (_, i) => from + i * step).join(' ')
}
