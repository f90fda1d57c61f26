/** lockstep compile: the program as a value, in numbers or as text. */
import type { Command } from 'commander'
import { save, showBytes, worldOf } from '../../base/index.js'
import { heaviest } from '../../compile/index.js'
import { type Program, print, printRank } from '../../ir/index.js'
import { type Loaded, withProgram } from '../files/program.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'

interface CompileOptions {
  readonly rank?: number
  readonly text?: boolean
  readonly out?: string
  readonly json?: boolean
}

export function registerCompile(program: Command, io: Io, done: (code: number) => void): void {
  program
    .command('compile')
    .summary('compile the program of every rank')
    .description('Compiles a job into one program for every rank and says what it consists of; --text prints it.')
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--rank <rank>', 'look at one rank', integer)
    .option('--text', 'print the program in its text form (of one rank, with --rank)')
    .option('--out <file>', 'write the text form of the whole program to a file')
    .option('--json', 'the summary as JSON, with --text the text in it')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep compile job.yaml\n  lockstep compile job.yaml --rank 3 --text\n\nExit code 0: fine, 1: the job has problems, 2: usage error.',
    )
    .action(async (path: string, options: CompileOptions, command: Command) => {
      const started = performance.now()
      const use = ({ program }: Loaded): number => {
        const world = worldOf(program.mesh)
        if (options.rank !== undefined && options.rank >= world)
          command.error(`error: there is no rank ${options.rank}: the program has ranks 0 to ${world - 1}`, {
            exitCode: 2,
          })
        if (options.out !== undefined) save(options.out, print(program), io)
        io.out(shown(program, options, (performance.now() - started) / 1000))
        return 0
      }
      done(await withProgram(path, io, options, use))
    })
}

function shown(program: Program, { rank, text, json }: CompileOptions, seconds: number): string {
  const printed = text ? (rank === undefined ? print(program) : `${printRank(program, rank)}\n`) : undefined
  if (printed !== undefined && !json) return printed
  const summary = { ...summarise(program), seconds }
  if (!json) return `${describe(summary)}\n`
  return `${JSON.stringify({ ...summary, ...(printed === undefined ? {} : { text: printed }) }, null, 2)}\n`
}

export function summarise(program: Program) {
  const { segments, streams, params, blocks } = program
  const pp = heaviest(streams)
  return {
    ranks: worldOf(program.mesh),
    mesh: Object.fromEntries(program.mesh.axes.map(({ name, size }) => [name, size])),
    stages: program.stages,
    microbatches: program.microbatches,
    blocks: blocks.length,
    params: params.length,
    segments: Object.keys(segments).length,
    instructions: Object.values(segments).reduce((n, { instrs }) => n + instrs.length, 0),
    streams: streams.map(({ steps, frames, arena }) => ({ steps: steps.length, frames: frames.length, arena })),
    heaviest: { pp, arena: streams[pp].arena },
  }
}

const describe = (s: ReturnType<typeof summarise> & { seconds: number }): string =>
  [
    `${s.ranks} ranks (${
      Object.entries(s.mesh)
        .filter(([, size]) => size > 1)
        .map(([axis, size]) => `${axis} ${size}`)
        .join(', ') || 'one rank'
    }), ${s.stages} stages, ${s.microbatches} microbatches`,
    `${s.segments} segments of ${s.instructions} instructions serve ${s.blocks} blocks and ${s.params} parameters`,
    `${s.streams.length} streams of ${Math.max(...s.streams.map(({ steps }) => steps))} steps at most; heaviest pp ${s.heaviest.pp} with ${showBytes(s.heaviest.arena)}`,
    `compiled in ${s.seconds.toFixed(2)} s`,
  ].join('\n')
