/** lockstep memory: what each rank needs, by kind, before anything runs. */
import type { Command } from 'commander'
import { showBytes, table } from '../../base/index.js'
import { heaviest } from '../../compile/index.js'
import { bytesPer, kinds, type Program } from '../../ir/index.js'
import { withProgram } from '../files/program.js'
import type { Io } from '../io.js'

export function registerMemory(program: Command, io: Io, done: (code: number) => void): void {
  program
    .command('memory')
    .summary('peak bytes per rank and kind')
    .description('Compiles a job and prints the peak memory of every pipeline rank by kind, and the arena they share.')
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--json', 'bytes as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep memory job.yaml\n\nExit code 0: fine, 1: the job has problems, 2: usage error.',
    )
    .action(async (path: string, options: { json?: boolean }) => {
      const show = (p: Program) => (options.json ? JSON.stringify(memoryJson(p), null, 2) : memoryText(p))
      done(
        await withProgram(path, io, { ...options, fits: false }, loaded => {
          io.out(`${show(loaded.program)}\n`)
          return 0
        }),
      )
    })
}

export const memoryJson = (program: Program) => ({
  ranksPerStage: program.mesh.axes.filter(({ name }) => name !== 'pp').reduce((n, { size }) => n * size, 1),
  heaviest: heaviest(program.streams),
  stages: program.streams.map(({ arena, peak }, pp) => ({ pp, arena, peak })),
  kept: keptBy(program),
})

/** What the forward of each kind of block keeps for the backward of one microbatch, term by term. */
const keptBy = ({ segments }: Program) =>
  Object.values(segments)
    .filter(({ phase }) => phase === 'F')
    .flatMap(({ name, roles, buffers }) =>
      Object.entries(buffers)
        .filter(([, { role }]) => roles[role].name.is === 'keep')
        .map(([term, { dims, dtype }]) => ({
          ...{ segment: name, term, dims: dims.map(dim => `${dim.name} ${dim.size}`).join(' x '), dtype },
          bytes: bytesPer[dtype] * dims.reduce((n, { size }) => n * size, 1),
        })),
    )

function keptText(program: Program): string[] {
  const rows = keptBy(program).map(({ segment, term, dims, dtype, bytes }) => [
    segment,
    term,
    dims,
    dtype,
    showBytes(bytes),
  ])
  return rows.length === 0
    ? []
    : [
        '',
        'Activations kept for the backward of one microbatch, on one rank:',
        table(['by', 'term', 'dims', '', 'bytes'], rows),
      ]
}

/** One row per pipeline rank; ranks that differ on the other axes only need the same. */
export function memoryText(program: Program): string {
  const { ranksPerStage, heaviest: most } = memoryJson(program)
  const used = kinds.filter(kind => program.streams.some(({ peak }) => peak[kind] > 0))
  const rows = program.streams.map(({ arena, peak }, pp) => [
    `pp ${pp}`,
    ...used.map(kind => showBytes(peak[kind])),
    showBytes(arena),
  ])
  const each = ranksPerStage > 1 ? `; the ${ranksPerStage} ranks of a pipeline rank need the same` : ''
  return [
    table(['rank', ...used, 'arena'], rows),
    `heaviest: pp ${most} with ${showBytes(program.streams[most].arena)}${each}`,
    'A kind is shown at its own peak; kinds peak at different times, and the arena holds them all at once.',
    ...keptText(program),
  ].join('\n')
}
