/** lockstep memory: the peak memory of each rank by category, before anything runs. */
import { type Elsewhere, elsewheres, showBytes, table } from '../../base/index.js'
import { heaviest, memoryWhy } from '../../compile/index.js'
import { bytesPer, kinds, type Program, roomIn } from '../../ir/index.js'
import { withProgram } from '../files/program.js'
import type { Io } from '../io.js'
import { whyText } from '../text/memory-why.js'

export interface MemoryOptions {
  readonly why?: boolean
  readonly devices?: number
  readonly set?: Readonly<Record<string, string>>
  readonly json?: boolean
}

export const memoryCommand = (path: string, options: MemoryOptions, io: Io): Promise<number> =>
  withProgram(path, io, { ...options, fits: false }, ({ job, program }) => {
    const why = options.why ? memoryWhy(job, program, heaviest(program.streams)) : undefined
    const text = () => [memoryText(program), ...(why ? ['', whyText(why)] : [])].join('\n')
    io.out(`${options.json ? JSON.stringify({ ...memoryJson(program), ...(why && { why }) }, null, 2) : text()}\n`)
    return 0
  })

export const memoryJson = (program: Program) => ({
  ranksPerStage: program.mesh.axes.filter(({ name }) => name !== 'pp').reduce((n, { size }) => n * size, 1),
  heaviest: heaviest(program.streams),
  stages: program.streams.map(({ arena, peak, elsewhere }, pp) => ({ pp, arena, peak, ...elsewhere })),
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
        'Activations saved for backward, per microbatch and rank:',
        table(['function', 'tensor', 'dims', 'dtype', 'size'], rows),
      ]
}

/** What ranks hold in another space than the device's. */
function elsewhereText({ streams }: Program, space: Elsewhere): string[] {
  const rooms = streams.map(stream => roomIn(stream, space))
  const used = kinds.filter(kind => rooms.some(({ peak }) => peak[kind] > 0))
  if (used.length === 0) return []
  const rows = rooms.map(({ arena, peak }, pp) => [
    `pp ${pp}`,
    ...used.map(kind => showBytes(peak[kind])),
    showBytes(arena),
  ])
  return ['', table([`${space} memory`, ...used, 'total'], rows)]
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
  const each = ranksPerStage > 1 ? ` (each of its ${ranksPerStage} ranks)` : ''
  return [
    `largest: pp ${most}, ${showBytes(program.streams[most].arena)}${each}`,
    '',
    table(['rank', ...used, 'total'], rows),
    ...elsewheres.flatMap(space => elsewhereText(program, space)),
    'Columns are per-category peaks, at different times; "total" is the peak of all together.',
    ...keptText(program),
  ].join('\n')
}
