/** One rank's program: its lines, its memory, the laws, and a step of the interpreter to walk through. */
import {
  check,
  compileJob,
  coordinatesOf,
  indexAlong,
  type Job,
  type Problem,
  ProblemsError,
  type Program,
  parse,
  print,
  rehearsalOf,
  rehearsalSizes,
  serialJob,
  sizeOfAll,
  verify,
  worldOf,
} from 'lockstep'
import { stringify } from 'yaml'
import { type Broken, named, saidIn } from '../broken.js'
import { readJob, segmentsIn } from '../jobs.js'
import { jobSaid } from '../plan/link.js'
import { type Tape, tapeOf } from './tape.js'

export interface ProgramInput {
  /** The job, as YAML. */
  readonly job: string
  readonly rank: number
}

/** A step of a stream in a line. */
export interface Line {
  readonly text: string
  /** Calls can be looked into. */
  readonly segment?: string
}

export interface Room {
  readonly name: string
  readonly kind: Stream['frames'][number]['kind']
  readonly offset: number
  readonly bytes: number
  /** Alive from this step on, until that one; both ends of the stream for what lives from step to step. */
  readonly from: number
  readonly until: number
}

export interface SegmentLines {
  readonly instrs: readonly string[]
  readonly buffers: Readonly<Record<string, BufferShape>>
}

export interface BufferShape {
  readonly dtype: string
  readonly dims: readonly {
    readonly name: string
    readonly size: number
    readonly parts: number
    readonly index: number
  }[]
  /** Axes over which it is a sum that has not been taken. */
  readonly partial: readonly string[]
}

export interface Opened {
  /** Whose program it is. */
  readonly job: string
  readonly world: number
  readonly rank: number
  readonly coordinates: readonly { readonly axis: string; readonly at: number; readonly of: number }[]
  readonly lines: readonly Line[]
  readonly segments: Readonly<Record<string, SegmentLines>>
  readonly arena: number
  readonly rooms: readonly Room[]
  /** The whole program, to be edited. */
  readonly text: string
  /** What all ranks hold. */
  readonly bytes: number
  /** Too much for the interpreter of a page: there are no values to walk through. */
  readonly large: boolean
}

export function open({ job: text, rank: asked }: ProgramInput): Opened {
  const program = compileJob(readJob(text), undefined, { verify: false })
  const world = worldOf(program.mesh)
  const rank = Math.max(0, Math.min(world - 1, Math.floor(asked) || 0))
  const at = coordinatesOf(program.mesh, rank)
  const coordinates = program.mesh.axes.map(({ name, size }) => ({ axis: name, at: at[name] ?? 0, of: size }))
  const stream = program.streams[at.pp ?? 0]!
  const used = new Set(stream.steps.flatMap(step => (step.kind === 'call' ? [step.segment] : [])))
  const printed = print(program)
  const lines = segmentsIn(printed)
  const instrsOf = (segment: string) => (lines.get(segment) ?? []).slice(1).map(line => line.trim())
  return {
    ...{ job: text, world, rank, coordinates, arena: stream.arena, text: printed, ...sizeOf(program) },
    lines: stream.steps.map(step => lineOf(program, step)),
    segments: Object.fromEntries([...used].map(name => [name, shapeOf(program, name, instrsOf(name), rank)])),
    rooms: roomsOf(stream),
  }
}

/** Of all ranks together: the interpreter holds every one of them, in f64, and so does the page. */
const mostBytes = 32e6

function sizeOf({ streams, mesh }: Program): Pick<Opened, 'bytes' | 'large'> {
  const bytes = streams.reduce((sum, { arena }) => sum + arena, 0) * (worldOf(mesh) / streams.length)
  return { bytes, large: bytes > mostBytes }
}

/** The same program for a narrower model and fewer ranks, as a file: small enough to be walked through, if any is. */
export function narrower({ job: text }: Pick<ProgramInput, 'job'>): { readonly job: string } {
  const job = readJob(text)
  const all = rehearsalSizes.map(sizes => rehearsalOf(job, { ...sizes, ranks: 16, tasks: 64 }).job)
  const small = all.find(one => !check(one).some(({ severity }) => severity === 'error'))
  return { job: stringify(jobSaid(small ?? all[0]!)) }
}

type Stream = Program['streams'][number]
type Step = Stream['steps'][number]

function lineOf({ blocks }: Program, step: Step): Line {
  if (step.kind === 'call') {
    const where = [blocks[step.block]?.name, step.microbatch >= 0 ? `microbatch ${step.microbatch}` : ''].filter(
      Boolean,
    )
    return { text: `${step.segment}${where.length > 0 ? ` (${where.join(', ')})` : ''}`, segment: step.segment }
  }
  return {
    text: [
      step.kind,
      ...Object.entries(step).flatMap(([key, value]) => (key === 'kind' ? [] : [`${key}=${short(value)}`])),
    ].join(' '),
  }
}

const short = (value: unknown): string =>
  Array.isArray(value) ? value.join(',') : typeof value === 'object' ? JSON.stringify(value) : String(value)

function shapeOf({ segments, mesh }: Program, name: string, instrs: readonly string[], rank: number): SegmentLines {
  const at = coordinatesOf(mesh, rank)
  const buffers = Object.entries(segments[name]!.buffers).map(([ref, { dtype, dims, layout }]) => {
    const parts = dims.map(({ name, size }) => {
      const axes = layout.splits[name] ?? []
      return { name, size, parts: sizeOfAll(mesh, axes), index: indexAlong(mesh, axes, at) }
    })
    return [ref, { dtype, dims: parts, partial: Object.keys(layout.partial) }] as const
  })
  return { instrs, buffers: Object.fromEntries(buffers) }
}

function roomsOf({ frames, resident, steps }: Stream): Room[] {
  const lives = frames.map((_, n) => ({ from: resident.includes(n) ? 0 : -1, until: steps.length }))
  steps.forEach((step, at) => {
    if (step.kind === 'alloc') lives[step.frame]!.from = at
    if (step.kind === 'free') lives[step.frame]!.until = at
  })
  return frames.flatMap(({ name, kind, bytes, offset }, n) =>
    lives[n]!.from < 0 ? [] : [{ name, kind, offset, bytes, from: lives[n]!.from, until: lives[n]!.until }],
  )
}

export const tape = ({ job: text, rank }: ProgramInput): Tape => {
  const job = readJob(text)
  const program = compileJob(job, undefined, { verify: false })
  return tapeOf(program, job, Math.max(0, Math.min(worldOf(program.mesh) - 1, rank)))
}

/** The laws on a program's text, as its reader left it, beside the serial program of the job it came from. */
export function judge({ job: text, program: edited }: { readonly job: string; readonly program: string }): Broken[] {
  const parsed = parsedProgram(edited)
  if ('problems' in parsed)
    return parsed.problems.map(({ message, suggestion, line, ...said }) => ({
      title: '',
      message: [message, suggestion].filter(Boolean).join('; '),
      ...saidIn(said),
      ...(line !== undefined && { line }),
    }))
  return violations(parsed.program, readJob(text)).map(({ segment, instr, ...violation }) => {
    const line = segment === undefined ? undefined : lineIn(edited, segment, instr)
    return { ...named(violation), ...(line !== undefined && { line }) }
  })
}

/** Beside one rank that takes as many microbatches: a value belongs to one of them. */
const violations = (program: Program, job: Job) =>
  verify(program, compileJob(serialJob(job, job.plan.microbatches), undefined, { verify: false }))

/** The laws on the program of a job, whoever wrote its schedule. */
export const brokenBy = (program: Program, job: Job): Broken[] => violations(program, job).map(named)

function parsedProgram(text: string): { readonly program: Program } | { readonly problems: readonly Problem[] } {
  try {
    return { program: parse(text) }
  } catch (error) {
    if (error instanceof ProblemsError) return { problems: error.problems }
    throw error
  }
}

function lineIn(text: string, segment: string, instr: number | undefined): number | undefined {
  const lines = text.split('\n')
  const head = lines.findIndex(
    line => line.startsWith(`segment ${segment} `) || line.startsWith(`segment "${segment}" `),
  )
  if (head < 0 || instr === undefined) return head < 0 ? undefined : head + 1
  let left = instr
  for (let at = head + 1; at < lines.length && lines[at]!.startsWith('  '); at++)
    if (!/^ {2}(role|buffer) /.test(lines[at]!) && left-- === 0) return at + 1
  return head + 1
}
