/**
 * The command line. Only the command that is asked for is loaded: schemas, YAML and the compiler each take longer to
 * load than most commands take to run. Exit codes: 0 fine, 1 problems found, 2 usage error, 130 interrupted, 143 terminated.
 */
import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { ProblemsError } from '../base/index.js'
import { type Io, processIo } from './io.js'
import { onTerminal } from './text/colors.js'
import { showProblems } from './text/problems.js'
import { Interrupted } from './text/progress.js'
import { usageProblems } from './text/usage.js'

export type Register = (program: Command, io: Io, done: (code: number) => void) => void

/** All commands, in the order of the help. A command is one file that exports its `register`; this is the list it is added to. */
const commands: Readonly<Record<string, () => Promise<Register>>> = {
  plan: async () => (await import('./commands/plan.js')).registerPlan,
  explain: async () => (await import('./commands/explain.js')).registerExplain,
  scale: async () => (await import('./commands/scale.js')).registerScale,
  check: async () => (await import('./commands/check.js')).registerCheck,
  presets: async () => (await import('./commands/presets.js')).registerPresets,
  compile: async () => (await import('./commands/compile.js')).registerCompile,
  verify: async () => (await import('./commands/verify.js')).registerVerify,
  train: async () => (await import('./commands/train.js')).registerTrain,
  rehearse: async () => (await import('./commands/rehearse.js')).registerRehearse,
  emit: async () => (await import('./commands/emit.js')).registerEmit,
  launch: async () => (await import('./commands/launch.js')).registerLaunch,
  memory: async () => (await import('./commands/memory.js')).registerMemory,
  simulate: async () => (await import('./commands/simulate.js')).registerSimulate,
  schedule: async () => (await import('./commands/schedule.js')).registerSchedule,
  cluster: async () => (await import('./commands/cluster.js')).registerCluster,
  groups: async () => (await import('./commands/groups.js')).registerGroups,
  calibrate: async () => (await import('./commands/calibrate.js')).registerCalibrate,
  compare: async () => (await import('./commands/compare.js')).registerCompare,
  validate: async () => (await import('./commands/validate.js')).registerValidate,
  bench: async () => (await import('./commands/bench.js')).registerBench,
  demo: async () => (await import('./commands/demo.js')).registerDemo,
}

export async function run(argv: readonly string[], given: Io = processIo()): Promise<number> {
  let code = 0
  const json = argv.includes('--json')
  const io = guarded(json ? { ...given, progressColumns: () => undefined } : given)
  const program = frame(io)
  try {
    const asked = argv[0] !== undefined && Object.hasOwn(commands, argv[0]) ? [argv[0]] : Object.keys(commands)
    for (const register of await Promise.all(asked.map(name => commands[name]())))
      register(program, io, given => {
        code = given
      })
    const problems = usageProblems(program, argv)
    if (problems.length > 0) {
      io.err(
        `${problems.map(problem => `error: ${problem}`).join('\n')}\n(lockstep ${argv[0]} --help has an example)\n`,
      )
      return 2
    }
    await program.parseAsync([...argv], { from: 'user' })
    return code
  } catch (e) {
    return failed(e, io, { name: argv[0], json })
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
  if (e instanceof CommanderError) return e.exitCode === 0 ? 0 : 2
  if (e instanceof Interrupted) {
    io.err(`${name}: interrupted before there was a result\n`)
    return e.code
  }
  if (e instanceof ProblemsError) {
    const { problems, file } = e
    if (json) io.out(`${JSON.stringify({ ok: false, ...(file && { file }), problems }, null, 2)}\n`)
    else io.err(showProblems(problems, io, file))
    return 1
  }
  const message = e instanceof Error ? `${e.name}: ${e.message.split('\n')[0]}` : String(e)
  io.err(`internal: ${message}; this is a bug in lockstep, please report it with the command and its input\n`)
  if (io.env.LOCKSTEP_DEBUG && e instanceof Error) io.err(`${e.stack}\n`)
  return 1
}

const version = (): string =>
  JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')).version
