/**
 * The command line. Only what is asked for is loaded, for help no more than the words of a command: schemas, YAML and the
 * compiler each take longer to load than most commands take to run. Exit codes: 0 fine, 1 problems found, 2 usage error, 129 its terminal was closed, 130 interrupted, 143 terminated.
 */
import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { error, FileError, type Problem, ProblemsError, shorten } from '../base/index.js'
import { type Io, processIo } from './io.js'
import { onTerminal } from './text/colors.js'
import { problemsJson, showProblems } from './text/problems.js'
import { Interrupted } from './text/progress.js'
import { usageProblems } from './text/usage.js'

export type Register = (command: Command, io: Io, done: (code: number) => void) => void

/** A command on the list of all of them; `words` loads its options, whose actions load what it does. */
interface Listed {
  readonly summary: string
  readonly words: () => Promise<{ readonly register: Register }>
}

/** All commands, in the order of the help. A command is a file of words/ and one of commands/; this is the list it is added to. */
const commands: Readonly<Record<string, Listed>> = {
  studio: { summary: 'plan, run and learn in the browser', words: () => import('./words/studio.js') },
  init: { summary: 'write a job to begin with', words: () => import('./words/init.js') },
  plan: { summary: 'find the best plan for a model on a cluster', words: () => import('./words/plan.js') },
  explain: { summary: 'what limits a plan, and what to try next', words: () => import('./words/explain.js') },
  scale: { summary: 'strong and weak scaling, with their limit', words: () => import('./words/scale.js') },
  check: { summary: 'say everything that is wrong with a job', words: () => import('./words/check.js') },
  config: {
    summary: 'every field of a job or a cluster file, and their JSON schema',
    words: () => import('./words/config.js'),
  },
  models: {
    summary: 'list the models a job can name, with what they amount to',
    words: () => import('./words/models.js'),
  },
  import: { summary: 'make a job of a configuration of another framework', words: () => import('./words/import.js') },
  compile: { summary: 'compile the program of every rank', words: () => import('./words/compile.js') },
  verify: { summary: 'prove a program, and compare it with one rank', words: () => import('./words/verify.js') },
  train: { summary: 'train a job on the ranks of this machine', words: () => import('./words/train.js') },
  generate: { summary: 'go on from a prompt with a trained model', words: () => import('./words/generate.js') },
  eval: { summary: 'how well a trained model knows a text', words: () => import('./words/eval.js') },
  watch: { summary: 'show a run live, here or in a shared folder', words: () => import('./words/watch.js') },
  report: { summary: 'write a run as one HTML page', words: () => import('./words/report.js') },
  doctor: { summary: 'what ails a run, and what to change', words: () => import('./words/doctor.js') },
  replan: { summary: 'search again with the rates a run has measured', words: () => import('./words/replan.js') },
  rehearse: {
    summary: 'run a plan of thousands of ranks here, at a small size',
    words: () => import('./words/rehearse.js'),
  },
  emit: { summary: 'write the program as PyTorch, for torchrun and NCCL', words: () => import('./words/emit.js') },
  export: { summary: 'write a checkpoint as another software reads it', words: () => import('./words/export.js') },
  launch: { summary: 'emit a job as PyTorch and run it here with torchrun', words: () => import('./words/launch.js') },
  memory: { summary: 'peak bytes per rank and kind', words: () => import('./words/memory.js') },
  simulate: { summary: 'step time, utilisation and timeline on a cluster', words: () => import('./words/simulate.js') },
  schedule: { summary: 'make, check, time and draw a pipeline schedule', words: () => import('./words/schedule.js') },
  price: { summary: 'what a collective takes on a cluster, and why', words: () => import('./words/price.js') },
  cluster: { summary: 'list devices and draw clusters of them', words: () => import('./words/cluster.js') },
  groups: { summary: 'list the rank groups of a layout', words: () => import('./words/groups.js') },
  calibrate: {
    summary: 'measure a machine and write it as a cluster file',
    words: () => import('./words/calibrate.js'),
  },
  compare: { summary: 'predicted against measured, on one timeline', words: () => import('./words/compare.js') },
  validate: {
    summary: 'compare predicted step times and memory with published ones',
    words: () => import('./words/validate.js'),
  },
  case: { summary: 'published runs beside ours', words: () => import('./words/case.js') },
  bench: { summary: 'measure this machine', words: () => import('./words/bench.js') },
  demo: { summary: 'predict, train and check a small job on this machine', words: () => import('./words/demo.js') },
}

/** Words of earlier versions. */
const renamed: Readonly<Record<string, string>> = { presets: 'models' }

export async function run(argv: readonly string[], given: Io = processIo()): Promise<number> {
  let code = 0
  const json = argv.includes('--json')
  const io = guarded(json ? { ...given, progressColumns: () => undefined } : given)
  const program = frame(io)
  if (argv.length > 0 && Object.hasOwn(renamed, argv[0])) {
    const message = `\`lockstep ${argv[0]}\` is \`lockstep ${renamed[argv[0]]}\` now`
    io.err(`error: ${message}\n`)
    return json ? failedJson(usageErrors([message]), io, 2) : 2
  }
  try {
    const finish = (given: number) => {
      code = given
    }
    await addCommands(program, argv, (command, { register }) => register(command, io, finish))
    const problems = usageProblems(program, argv)
    if (problems.length > 0) {
      io.err(
        `${problems.map(problem => `error: ${problem}`).join('\n')}\n(lockstep ${argv[0]} --help has an example)\n`,
      )
      return json ? failedJson(usageErrors(problems), io, 2) : 2
    }
    await program.parseAsync([...argv], { from: 'user' })
    return code
  } catch (e) {
    return failed(e, io, { name: argv[0], json })
  }
}

/** The command that is asked for, or all of them where the answer is their list; `help plan` asks for plan. */
async function addCommands(
  program: Command,
  argv: readonly string[],
  fill: (command: Command, words: { readonly register: Register }) => void,
): Promise<void> {
  const isCommand = (word: string) => Object.hasOwn(commands, word)
  const asked = argv.slice(0, 2).find(isCommand)
  const listed = argv.slice(0, 1).some(isCommand) ? argv.slice(0, 1) : Object.keys(commands)
  for (const name of listed) {
    const command = program.command(name).summary(commands[name].summary)
    if (name === asked) fill(command, await commands[name].words())
  }
}

/** Names and cells come from files of others: whatever control characters they hold, no terminal obeys them. */
const guarded = (io: Io): Io => ({
  ...io,
  out: text => io.out(onTerminal(text)),
  err: text => io.err(onTerminal(text)),
})

function frame(io: Io): Command {
  return new Command('lockstep')
    .description('Compile a model and a plan into one proved training program for every rank.')
    .version(version(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .helpCommand('help [command]', 'print help for a command')
    .configureOutput({
      writeOut: text => io.out(text),
      writeErr: text => io.err(text),
      getOutHasColors: () => io.colors,
      getErrHasColors: () => io.colors,
    })
    .showHelpAfterError('(lockstep --help lists the commands; lockstep <command> --help has an example)')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep check job.yaml\n\nExit code 0: fine, 1: problems found, 2: usage error, 130: interrupted, 143: terminated.',
    )
    .exitOverride()
}

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
  io.err(`internal: ${message}; this is a bug in lockstep, please report it with the command and its input\n`)
  if (io.env.LOCKSTEP_DEBUG && e instanceof Error) io.err(`${e.stack}\n`)
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
