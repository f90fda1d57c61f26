/**
 * One rank's program, for people: where it stands, whom it meets, the segments it calls (each once), and its
 * stream, one line per call. Made for looking at rank 4711 of 16384, so nothing here grows with the world:
 * long groups are shortened, allocs and frees in a row share a line, and what is resident is listed once.
 */
import { coordinatesOf, groupOf, type Mesh, type Rank, rankAt, showBytes, worldOf } from '../../base/index.js'
import type { Group } from '../instr.js'
import type { Program, Step, Stream } from '../program.js'
import { showRole } from '../role.js'
import { traitsOf } from '../traits.js'
import { printSegment } from './print.js'

/** The program of one rank as text: its coordinates and peers, the segments it calls, and its stream. */
export function printRank(program: Program, rank: Rank): string {
  const { mesh } = program
  const at = coordinatesOf(mesh, rank)
  const stream = program.streams[at.pp ?? 0]
  if (rank < 0 || rank >= worldOf(mesh) || stream === undefined)
    throw new RangeError(`rank ${rank} of a program for ${worldOf(mesh)} ranks`)
  const used = segmentsOf(stream)
  return [
    `rank ${rank} of ${worldOf(mesh)}: ${mesh.axes.map(({ name, size }) => `${name} ${at[name]}/${size}`).join(' ')}`.trimEnd(),
    `arena ${showBytes(stream.arena)}: ${Object.entries(stream.peak)
      .map(([kind, n]) => `${kind} ${showBytes(n)}`)
      .join(', ')}`,
    '',
    'groups',
    ...groupsOf(program, used).map(group => `  ${showGroup(group)}: ${showRanks(membersOf(mesh, rank, group))}`),
    ...used.flatMap(key => ['', ...printSegment(program.segments[key], key)]),
    '',
    'resident',
    ...stream.resident.map(
      frame => `  ${stream.frames[frame].kind} ${placed(stream, frame)} ${showBytes(stream.frames[frame].bytes)}`,
    ),
    '',
    'stream',
    ...printSteps(program, stream, peer => rankAt(mesh, { ...at, pp: peer })),
    '',
  ].join('\n')
}

/** The ranks that meet `rank` in a group. Stages, where given, take the place of the pipeline axis. */
export function membersOf(mesh: Mesh, rank: Rank, { axes, stages }: Group): Rank[] {
  if (!stages) return groupOf(mesh, rank, axes)
  const others = axes.filter(axis => axis !== 'pp')
  const at = coordinatesOf(mesh, rank)
  return stages.flatMap(pp => groupOf(mesh, rankAt(mesh, { ...at, pp }), others))
}

const placed = ({ frames }: Stream, frame: number) => `${frames[frame].name}@${frames[frame].offset}`

const segmentsOf = (stream: Stream): string[] => [
  ...new Set(stream.steps.flatMap(step => (step.kind === 'call' ? [step.segment] : []))),
]

const showGroup = ({ axes, stages }: Group) => axes.join(' x ') + (stages ? ` of stages ${stages.join(', ')}` : '')

function groupsOf(program: Program, used: readonly string[]): Group[] {
  const met = used.flatMap(key => program.segments[key].instrs).flatMap(instr => traitsOf(instr).meets ?? [])
  return [...new Map(met.map(group => [showGroup(group), group])).values()]
}

/** 0 1 2 3, or the first few and the last of many. */
const showRanks = (ranks: readonly Rank[]) =>
  ranks.length <= 16 ? ranks.join(' ') : `${ranks.slice(0, 8).join(' ')} ... ${ranks.at(-1)} (${ranks.length} ranks)`

function printSteps(program: Program, stream: Stream, rankOf: (pipeline: number) => Rank): string[] {
  const digits = String(stream.steps.length).length
  const resident = new Set(stream.resident)
  const lines: string[] = []
  let last: Step['kind'] | undefined
  stream.steps.forEach((step, i) => {
    const again = step.kind === last && (step.kind === 'alloc' || step.kind === 'free')
    if (again) lines[lines.length - 1] += ` ${placed(stream, step.frame)}`
    else lines.push(`  ${String(i).padStart(digits)}  ${showStep(step)}`)
    last = step.kind
  })
  return lines

  function showStep(step: Step): string {
    switch (step.kind) {
      case 'alloc':
      case 'free':
        return `${step.kind} ${placed(stream, step.frame)}`
      case 'send':
        return `send ${placed(stream, step.frame)} to rank ${rankOf(step.peer)}, ${step.tag}`
      case 'recv':
        return `recv ${placed(stream, step.frame)} from rank ${rankOf(step.peer)}, ${step.tag}`
      case 'wait':
        return `wait ${step.tag}`
      case 'call': {
        const { roles } = program.segments[step.segment]
        const block = step.block < 0 ? [] : [program.blocks[step.block].name]
        const microbatch = step.microbatch < 0 ? [] : [`microbatch ${step.microbatch}`]
        const of = [...block, ...microbatch, ...(step.param === undefined ? [] : [step.param])].join(', ')
        const bound = step.bind.flatMap((frame, i) =>
          resident.has(frame) ? [] : [`${showRole(roles[i].name)}=${placed(stream, frame)}`],
        )
        const verb = step.tag === undefined ? '' : `start ${step.tag}: `
        return [`${verb}${step.segment}${of && ` (${of})`}`, ...(bound.length > 0 ? [bound.join(' ')] : [])].join(': ')
      }
    }
  }
}
