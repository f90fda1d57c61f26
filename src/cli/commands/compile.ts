/** lockstep compile: the program as a value, in numbers or as text. */
import { counted, save, showBytes, worldOf } from '../../base/index.js'
import { heaviest } from '../../compile/index.js'
import { type Program, print, printRank } from '../../ir/index.js'
import { withProgram } from '../files/program.js'
import type { Io } from '../io.js'

export interface CompileOptions {
  readonly rank?: number
  readonly text?: boolean
  readonly out?: string
  readonly json?: boolean
}

/** `misused` says what is wrong with the command line, and throws. */
export async function compileCommand(
  path: string,
  options: CompileOptions,
  io: Io,
  misused: (message: string) => never,
): Promise<number> {
  const started = performance.now()
  return withProgram(path, io, options, ({ program }) => {
    const world = worldOf(program.mesh)
    if (options.rank !== undefined && options.rank >= world)
      misused(`error: there is no rank ${options.rank}: the program has ranks 0 to ${world - 1}`)
    if (options.out !== undefined) save(options.out, print(program), io)
    io.out(shown(program, options, (performance.now() - started) / 1000))
    return 0
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
    `${counted(s.ranks, 'rank')} (${
      Object.entries(s.mesh)
        .filter(([, size]) => size > 1)
        .map(([axis, size]) => `${axis} ${size}`)
        .join(', ') || 'no parallelism'
    }), ${counted(s.stages, 'stage')}, ${counted(s.microbatches, 'microbatch')}`,
    `${counted(s.segments, 'function')} with ${counted(s.instructions, 'instruction')} for ${counted(s.blocks, 'block')} and ${counted(s.params, 'parameter tensor')}`,
    `${counted(s.streams.length, 'schedule')} of at most ${counted(Math.max(...s.streams.map(({ steps }) => steps)), 'step')}; largest memory: pp ${s.heaviest.pp}, ${showBytes(s.heaviest.arena)}`,
    `compiled in ${s.seconds.toFixed(2)} s`,
  ].join('\n')
