/** Jobs of lessons, as they would stand in a file; their programs, and excerpts of the programs' text. */
import { compileJob, emitProgram, type Job, ProblemsError, type Program, parseJob, print } from 'lockstep'

export interface JobText {
  readonly model: string | Readonly<Record<string, unknown>>
  readonly training: Readonly<Record<string, unknown>>
  readonly plan: Readonly<Record<string, unknown>>
}

/** A job's YAML, read; throws every problem there is. */
export function readJob(yaml: string): Job {
  const { job, problems } = parseJob(yaml)
  if (!job) throw new ProblemsError(problems)
  return job
}

export const jobOf = (text: JobText): Job => readJob(JSON.stringify(text))

/** A few programs stay: a slider goes back as often as on. */
const kept = new Map<string, Program>()
const most = 12

export function programOf(text: JobText): Program {
  const key = JSON.stringify(text)
  const program = kept.get(key) ?? compileJob(jobOf(text), undefined, { verify: false })
  kept.delete(key)
  kept.set(key, program)
  if (kept.size > most) kept.delete(kept.keys().next().value!)
  return program
}

/** The most that any rank holds of each kind at once. */
export type Bytes = Program['streams'][number]['peak']

export function peakOf({ streams }: Program): Bytes {
  const kinds = Object.keys(streams[0]!.peak) as (keyof Bytes)[]
  return Object.fromEntries(kinds.map(kind => [kind, Math.max(...streams.map(({ peak }) => peak[kind]))])) as Bytes // every kind
}

/** What lives from step to step, and the gradients. */
export const stateBytes = ({ parameters, gradients, optimizer }: Bytes): number => parameters + gradients + optimizer

/** Of each segment of a printed program: its head and its instructions, without what it declares. */
export function segmentsIn(printed: string): Map<string, string[]> {
  const parts = printed.split(/\n(?=\S)/).flatMap(part => {
    const name = /^segment (?:"([^"]+)"|(\S+))/.exec(part)
    const lines = part.trimEnd().split('\n')
    return name ? [[name[1] ?? name[2]!, lines.filter(line => !/^ {2}(role|buffer) /.test(line))] as const] : []
  })
  return new Map(parts)
}

/** The lines of the segments that are wanted. Streams, which are most of a program's text, are not printed. */
export const segmentLines = (program: Program, wanted: (name: string) => boolean): string[] =>
  [...segmentsIn(print({ ...program, streams: [] }))].flatMap(([name, lines]) => (wanted(name) ? lines : []))

/** Functions of the emitted modules whose name is wanted. */
export function pythonOf(program: Program, wanted: (name: string) => boolean): string {
  const modules = Object.entries(emitProgram(program)).filter(([path]) => path.endsWith('.py'))
  const parts = modules.flatMap(([, code]) => code.split(/\n(?=def )/))
  return parts
    .filter(part => wanted(/^def (\w+)/.exec(part)?.[1] ?? ''))
    .map(part => part.trimEnd())
    .join('\n\n\n')
}
