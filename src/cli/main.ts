/**
 * The command line. It loads only what a command needs, and for help only the command's words: schemas, YAML and the
 * compiler each take longer to load than most commands take to run.
 */
import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { error, FileError, type Problem, ProblemsError, shorten, wrapped } from '../base/index.js'
import { foundJob } from './files/found-job.js'
import { globalOptions, withGlobalOptions } from './global-options.js'
import { type Io, processIo } from './io.js'
import { paged } from './pager.js'
import { commands, groups, isCommand, type Register, renamedCommands } from './table.js'
import { onTerminal } from './text/colors.js'
import { problemsJson, showProblems } from './text/problems.js'
import { Interrupted } from './text/progress.js'
import { withNewOptions } from './text/renamed.js'
import { readLine } from './text/usage.js'

export async function run(argv: readonly string[], given: Io = processIo()): Promise<number> {
  const { words, io, pager } = withGlobalOptions(argv, guarded(given))
  const isLive = isCommand(words[0]) && commands[words[0]].live && !words.includes('--help')
  if (pager === undefined || isLive) return runWith(words, io)
  const { io: kept, show } = paged(io, pager)
  try {
    return await runWith(words, kept)
  } finally {
    show()
  }
}

async function runWith(line: readonly string[], io: Io): Promise<number> {
  let code = 0
  const json = line.includes('--json')
  const note = (text: string) => io.verbosity === 'quiet' || io.err(`note: ${text}\n`)
  const asked = withNewNames(line, note)
  const program = frame(asked, io)
  try {
    const finish = (given: number) => {
      code = given
    }
    await addCommands(program, asked, (command, { register }) => register(command, io, finish))
    const renamed = withNewOptions(program, asked, note)
    const { words, problems } = readLine(program, renamed, command => foundJob(command, renamed, io))
    if (problems.length > 0) {
      io.err(`${problems.flatMap(problem => wrapped(`error: ${problem}`)).join('\n')}\n${hintFor(words)}\n`)
      return json ? failedJson(usageErrors(problems), io, 2) : 2
    }
    await program.parseAsync([...words], { from: 'user' })
    return code
  } catch (e) {
    return failed(e, io, { name: asked[0], json })
  }
}

/** `help plan` is `plan --help`. A command under its old name runs, with a note that names the new one. */
function withNewNames(argv: readonly string[], note: (text: string) => void): readonly string[] {
  if (argv[0] === '-v') return ['--version']
  if (argv[0] === 'help') return withNewNames([...argv.slice(1), '--help'], note)
  const [old, ...rest] = argv
  if (old === undefined || !Object.hasOwn(renamedCommands, old)) return argv
  note(`\`lockstep ${old}\` is now \`lockstep ${renamedCommands[old]}\``)
  return [renamedCommands[old], ...rest]
}

/** Where a command line has mistakes: the help that would have prevented them. */
const hintFor = (words: readonly string[]): string =>
  isCommand(words[0])
    ? `Run \`lockstep ${words[0]} --help\` for its options and an example.`
    : 'Run `lockstep --help` for the list of commands.'

/** Adds the command that is asked for, or all of them where the answer is their list. */
async function addCommands(
  program: Command,
  argv: readonly string[],
  fill: (command: Command, words: { readonly register: Register }) => void,
): Promise<void> {
  const asked = argv.slice(0, 2).find(isCommand)
  const listed = isCommand(argv[0]) ? [argv[0]] : Object.keys(commands)
  for (const name of listed) {
    const { group, summary, words } = commands[name]
    const command = program.command(name).summary(summary).helpGroup(groups[group])
    if (name === asked) fill(command, await words())
  }
}

/** Names and cells come from files of others: control characters in them are shown, never sent to the terminal. */
const guarded = (io: Io): Io => ({
  ...io,
  out: text => io.out(onTerminal(text)),
  err: text => io.err(onTerminal(text)),
  page: (pager, text) => io.page(pager, onTerminal(text)),
})

const example = '  lockstep plan --model llama3-8b --cluster h100 --devices 64 --seq 8k --global-batch 128 --quick'

function frame(words: readonly string[], io: Io): Command {
  return new Command('lockstep')
    .usage('<command> [options]')
    .description('Plan, check, simulate, run and generate distributed LLM training.')
    .version(version(), '-V, --version', 'print the version (also -v)')
    .helpOption('-h, --help', 'print help; after a command, its options and an example')
    .helpCommand(false)
    .configureOutput({
      writeOut: text => io.out(text),
      writeErr: text => io.err(text),
      getOutHasColors: () => io.colors,
      getErrHasColors: () => io.colors,
    })
    .showHelpAfterError(hintFor(words))
    .addHelpText('after', `\n${everyCommand}\n\nExample:\n${example}\n\n${exitCodes}`)
    .exitOverride()
}

const everyCommand = [
  'Options of every command:',
  ...Object.entries(globalOptions).map(([flag, about]) => `  ${flag.padEnd(13)}  ${about}`),
  '  --json         print JSON',
].join('\n')

const exitCodes = 'Exit codes: 0 success, 1 problems found, 2 usage error, 129 hangup, 130 interrupted, 143 terminated.'

function failed(e: unknown, io: Io, { name, json }: { name: string; json: boolean }): number {
  if (e instanceof CommanderError && e.exitCode === 0) return 0
  if (e instanceof CommanderError) return json ? failedJson(usageErrors(linesOf(e)), io, 2) : 2
  if (e instanceof Interrupted) {
    const message = 'interrupted before there was a result'
    io.err(`${name}: ${message}\n`)
    return json ? failedJson([error('command/interrupted', '', message)], io, e.code) : e.code
  }
  if (e instanceof FileError) {
    const unreadable = error('file/unreadable', '', `${shorten(e.path, 200)}: ${e.message}`)
    return failed(new ProblemsError([unreadable]), io, { name, json })
  }
  if (isWithoutFolder(e)) return failed(new ProblemsError([withoutFolder]), io, { name, json })
  if (e instanceof ProblemsError) {
    if (json) return failedJson(e.problems, io, 1, e.file)
    io.err(showProblems(e.problems, io, e.file))
    return 1
  }
  const message = e instanceof Error ? `${e.name}: ${e.message.split('\n')[0]}` : String(e)
  io.err(
    `internal: ${message}; this is a bug in lockstep, please report it with the command and its input (--verbose prints the stack)\n`,
  )
  if ((io.env.LOCKSTEP_DEBUG || io.verbosity === 'verbose') && e instanceof Error) io.err(`${e.stack}\n`)
  return json ? failedJson([error('command/internal', '', message)], io, 1) : 1
}

/** What Node throws whose current folder was deleted, at whatever is looked for in it first. */
const isWithoutFolder = (e: unknown): boolean => (e as Partial<NodeJS.ErrnoException> | undefined)?.syscall === 'uv_cwd'
const withoutFolder = error('file/unreadable', '', 'the current folder was deleted', 'change to another one')

function failedJson(problems: readonly Problem[], io: Io, code: number, file?: string): number {
  io.out(problemsJson(problems, file))
  return code
}

const usageErrors = (messages: readonly string[]): Problem[] =>
  messages.map(message => error('command/usage', '', message))

/** What commander has said of a line of words, a mistake a line. */
const linesOf = ({ message }: CommanderError): string[] => message.split('\n').map(line => line.replace(/^error: /, ''))

const version = (): string =>
  JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')).version
