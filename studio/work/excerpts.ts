/** Parts of a program's text that made a number of a lesson: segments, what ranks say to each other, the order of a rank's stream. */
import { type Program, print, printRank } from 'lockstep'
import { type JobText, programOf, pythonOf, segmentLines, segmentsIn } from './jobs.js'

export interface ExcerptInput {
  readonly job: JobText
  /** Names of segments. */
  readonly segments: readonly string[]
}

export interface Excerpt {
  readonly lines: readonly string[]
  readonly python: string
}

/** Instructions of some segments of a job's program, and the functions that are emitted for them. */
export function excerpt({ job, segments }: ExcerptInput): Excerpt {
  const program: Program = programOf(job)
  const names = new Set(segments.map(name => name.replace(/\W+/g, '_')))
  return {
    lines: segmentLines(program, name => segments.includes(name)),
    python: pythonOf(program, name => names.has(name)),
  }
}

/** Sums of one number, which every plan has. */
const isSmall = (name: string): boolean => name.startsWith('sum ')
/** Of many tensors the first two. */
const shortened = (line: string): string => line.replace(/((?:%\S+ ){2})(?:%\S+ ){2,}/g, '$1… ')

/** Which ranks rank 0 meets, and every instruction by which it does; the sums of losses and norms are left out. */
export function talk({ job }: { readonly job: JobText }): readonly string[] {
  const program = programOf(job)
  const head = printRank({ ...program, streams: program.streams.map(firstCalls) }, 0)
  const [first] = head.split('\n')
  const groups = /\ngroups\n([\s\S]*?)\n\n/.exec(head)?.[1]?.split('\n') ?? []
  const segments = [...segmentsIn(print({ ...program, streams: [] }))].flatMap(([name, [title, ...lines]]) => {
    const met = lines.filter(line => / over=/.test(line))
    return met.length > 0 && !isSmall(name) ? [title!, ...met.map(shortened)] : []
  })
  return [first!, ...(groups.length > 0 ? ['groups', ...groups] : []), ...segments]
}

/** Of several jobs, in order. */
export const talks = ({ jobs }: { readonly jobs: readonly JobText[] }): readonly (readonly string[])[] =>
  jobs.map(job => talk({ job }))

/** One call of each segment: who is met in a step shows in them. */
function firstCalls(stream: Program['streams'][number]): Program['streams'][number] {
  const met = new Set<string>()
  const steps = stream.steps.filter(step => {
    const fresh = step.kind === 'call' && !met.has(step.segment)
    if (step.kind === 'call') met.add(step.segment)
    return fresh
  })
  return { ...stream, steps }
}

/** Small jobs whose programs have an operation of the lesson on collectives; of the others there is none. */
const sayers: Readonly<Record<string, (ranks: number) => JobText>> = {
  'all-reduce': ranks => copies(ranks, 0),
  'reduce-scatter': ranks => copies(ranks, 1),
  'all-gather': ranks => copies(ranks, 1),
  // Ranks that have parts of a sequence get whole sequences of some heads.
  'all-to-all': ranks => ({
    model: { family: 'gpt', layers: 1, embed: 4 * ranks, heads: ranks, vocab: 32 },
    training: { seq: 4 * ranks, globalBatch: 1 },
    plan: { cp: ranks, attention: 'ulysses' },
  }),
  'send-recv': ranks => ({
    model: { family: 'mlp', layers: ranks, embed: 8, ffn: 16 },
    training: { seq: 4, globalBatch: 1 },
    plan: { pp: ranks },
  }),
}

const copies = (ranks: number, zero: number): JobText => ({
  model: { family: 'mlp', layers: 1, embed: 8, ffn: 16 },
  training: { seq: 4, globalBatch: ranks },
  plan: { dp: ranks, zero },
})

/** Lines of a program that has the operation, empty where none has. */
export function spoken({ op, ranks }: { readonly op: string; readonly ranks: number }): readonly string[] {
  const job = sayers[op]?.(ranks)
  if (!job) return []
  if (op === 'send-recv') return [0, 1].flatMap(rank => [`rank ${rank}`, ...messagesOf({ job, rank })])
  const meant = (line: string) => line.includes(`= ${op} `)
  return [...segmentsIn(print({ ...programOf(job), streams: [] }))].flatMap(([name, [title, ...lines]]) =>
    lines.some(meant) && !isSmall(name) ? [title!, ...lines.filter(meant).map(shortened)] : [],
  )
}

const messagesOf = (input: StreamInput): string[] => stream(input).filter(line => /^ *\d+ +(send|recv)\b/.test(line))

export interface StreamInput {
  readonly job: JobText
  readonly rank: number
}

/** Steps that only make room, or clear it. */
const housework = /^ *\d+ +(alloc|free|begin|clear|load|count|sum)\b/
const most = 60

/** The first steps of a rank: what it computes, starts and waits for, in order, without what is bound to which name. */
export function stream({ job, rank }: StreamInput): readonly string[] {
  const text = printRank(programOf(job), rank)
  const steps = text.slice(text.indexOf('\nstream')).split('\n').slice(2)
  return steps
    .filter(line => line.trim() !== '' && !housework.test(line))
    .slice(0, most)
    .map(line => line.replace(/: [^\s:]+=\S.*$/, ''))
}
