/**
 * Everything that is wrong with a command line, at once: commander stops at the first mistake. Only what it makes public
 * is read, and nothing is run; a line that is right here is then parsed by commander itself.
 */
import { type Argument, type Command, CommanderError, type Option } from 'commander'
import { didYouMean, either, nearest, shorten } from '../../base/index.js'
// Not through the folder's index, which loads schemas and YAML.
import { keyMeant } from '../../plan/synonyms.js'
import type { Found } from '../files/found-job.js'
import { globalOptions } from '../global-options.js'

interface Seen {
  readonly problems: string[]
  readonly options: Set<Option>
  readonly operands: string[]
  /** What follows an unknown option: its value, or an argument. */
  readonly unclear: string[]
}

interface Line {
  /** The line as commander is to parse it. */
  readonly words: readonly string[]
  /** One sentence each, in the order of the line; what is missing comes last. */
  readonly problems: readonly string[]
}

/** Where a command is given no argument, `find` may name its first one, say why it cannot, or leave that to the command. */
export function readLine(
  program: Command,
  argv: readonly string[],
  find: (command: Command) => Found | undefined,
): Line {
  const unknown = unknownCommand(program, argv)
  if (unknown !== undefined) return { words: argv, problems: [unknown] }
  const [command, words] = commandOf(program, argv)
  if (!command || words.some(word => word === '--help' || word === '-h')) return { words: argv, problems: [] }
  const seen: Seen = { problems: [], options: new Set(), operands: [], unclear: [] }
  for (let at = 0; at < words.length; at++) {
    if (words[at] === '--') {
      seen.operands.push(...words.slice(at + 1))
      break
    }
    at += readWord(command, words.slice(at), seen)
  }
  const found = seen.operands.length + seen.unclear.length === 0 ? find(command) : undefined
  const missing = found?.problem === undefined ? [] : [found.problem]
  if (found?.job !== undefined) seen.operands.push(found.job)
  const wrong = missing.length > 0 ? missing : argumentProblems(command.registeredArguments, seen)
  return {
    words: found?.job === undefined ? argv : [...argv, found.job],
    problems: [...seen.problems, ...missingOptions(command, seen), ...wrong],
  }
}

function unknownCommand(parent: Command, [first, ...rest]: readonly string[]): string | undefined {
  if (first === undefined || isOption(first) || parent.commands.length === 0) return undefined
  const named = parent.commands.find(command => command.name() === first)
  if (named) return unknownCommand(named, rest)
  const names = parent.commands.map(command => command.name())
  return `unknown command \`${shorten(first, 60)}\`${suggestion(first, names)}`
}

/** The command that the first words name, and the words that are left; undefined where commander has a better answer. */
function commandOf(program: Command, argv: readonly string[]): [Command | undefined, readonly string[]] {
  const [first, ...rest] = argv
  const named = program.commands.find(command => command.name() === first)
  if (!named) return [undefined, argv]
  return named.commands.length > 0 ? commandOf(named, rest) : [named, rest]
}

/** Takes an option with its value, or an operand; returns how many words more than the first were taken. */
function readWord(command: Command, [word, ...rest]: readonly string[], seen: Seen): number {
  if (!isOption(word)) {
    seen.operands.push(word)
    return 0
  }
  const [flag, joined] = word.startsWith('--') && word.includes('=') ? splitAt(word, '=') : [word, undefined]
  const option = command.options.find(({ long, short }) => long === flag || short === flag)
  if (!option) {
    const meant = optionMeant(flag, command.options)
    if (meant) seen.options.add(meant)
    const flags = [...command.options.flatMap(({ long }) => (long ? [long] : [])), ...Object.keys(globalOptions)]
    seen.problems.push(`unknown option ${shorten(flag, 60)}${suggestion(meant?.long ?? flag, flags)}`)
    if (joined !== undefined || rest.length === 0 || isOption(rest[0])) return 0
    seen.unclear.push(rest[0])
    return 1
  }
  seen.options.add(option)
  if (!option.required) return option.optional && joined === undefined && rest.length > 0 && !isOption(rest[0]) ? 1 : 0
  if (joined !== undefined) seen.problems.push(...valueProblems(option, joined))
  if (joined !== undefined) return 0
  const values = option.variadic ? rest.slice(0, countBefore(rest, isOption)) : rest.slice(0, 1)
  if (values.length === 0 || (values[0].startsWith('--') && isOption(values[0])))
    seen.problems.push(`${flag} needs a value: ${option.description}`)
  else seen.problems.push(...values.flatMap(value => valueProblems(option, value)))
  return values.length
}

/** At most so many are suggested. */
const mostNames = 3

/** The name that was probably meant, names that share a part with it, or nothing: `--help` lists them all. */
function suggestion(word: string, names: readonly string[]): string {
  const near = nearest(word, names)
  if (near !== undefined) return `; did you mean \`${near}\`?`
  const parts = (name: string) => name.split('-').filter(part => part.length > 2)
  const alike = names.filter(name => parts(name).some(part => parts(word).includes(part)))
  return alike.length === 0 ? '' : `; did you mean ${either(alike.slice(0, mostNames).map(name => `\`${name}\``))}?`
}

/** What stands before the first such mark in a word, and after it. */
export const splitAt = (word: string, mark: string): [string, string] => [
  word.slice(0, word.indexOf(mark)),
  word.slice(word.indexOf(mark) + 1),
]

const countBefore = (words: readonly string[], isEnd: (word: string) => boolean): number => {
  const end = words.findIndex(isEnd)
  return end < 0 ? words.length : end
}

/** A number below zero is a value. */
const isOption = (word: string): boolean => word.length > 1 && word.startsWith('-') && !/^-[\d.]/.test(word)

function valueProblems(option: Option, value: string): string[] {
  const named = `${option.long}: \`${shorten(value, 60)}\``
  // A variable of a script that is not set would otherwise name the folder that the command is in.
  if (value === '' && /<(checkpoint|file|folder)>/.test(option.flags))
    return [`${option.long} needs a value: ${option.description}`]
  if (option.argChoices && !option.argChoices.includes(value))
    return [`${named} is not one of its values; ${didYouMean(value, option.argChoices)}`]
  if (option.argChoices) return []
  try {
    option.parseArg?.(value, option.defaultValue)
    return []
  } catch (e) {
    if (e instanceof CommanderError) return [`${named}: ${e.message.replace(/\.$/, '')}`]
    throw e
  }
}

/** A slip of the keyboard, or another framework's word for it. */
function optionMeant(flag: string, options: readonly Option[]): Option | undefined {
  const key = keyMeant(flag.replace(/^-+/, ''))?.split('.').at(-1)
  const asFlag = key && `--${key.replaceAll(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`
  const near = nearest(
    flag,
    options.flatMap(({ long }) => (long ? [long] : [])),
  )
  const words = [asFlag, devicesFlags.test(flag) ? '--devices' : undefined, near]
  return words.map(word => word && options.find(({ long }) => long === word)).find(option => option) || undefined
}

const devicesFlags = /^--?(n?gpus|num[-_]?gpus|world[-_]?size|ranks|nproc.*)$/

const missingOptions = ({ options }: Command, seen: Seen): string[] =>
  options
    .filter(option => option.mandatory && option.defaultValue === undefined && !seen.options.has(option))
    .map(option => `${option.flags} is missing: ${option.description}`)

function argumentProblems(declared: readonly Argument[], { operands, unclear }: Seen): string[] {
  const required = declared.filter(argument => argument.required)
  const given = [...operands, ...unclear]
  const missing = required.slice(given.length)
  const wrong = declared.flatMap(({ argChoices, variadic }, at) =>
    argChoices === undefined || variadic || operands[at] === undefined || argChoices.includes(operands[at])
      ? []
      : [`unknown ${declared[at].name()} \`${shorten(operands[at], 60)}\`; ${didYouMean(operands[at], argChoices)}`],
  )
  const most = declared.some(({ variadic }) => variadic) ? Number.POSITIVE_INFINITY : declared.length
  return [
    ...missing.map(argument => `<${argument.name()}> is missing: ${argument.description}`),
    ...wrong,
    ...operands.slice(most).map(operand => `unexpected argument \`${shorten(operand, 60)}\``),
  ]
}
