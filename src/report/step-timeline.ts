/** A step as a timeline: a lane for each rank with its tasks, under it a thin one for each link, and its memory. */
import { median, type Rank, showBytes } from '../base/index.js'
import { kinds, type Program } from '../ir/index.js'
import { memoryOf, roundsOf, type Span, streamOf } from '../trace/index.js'
import { type Box, type Boxes, boxesOf, boxKinds } from './step.js'
import type { Lane, Timeline, TimelineSpan } from './timeline.js'

export interface StepPicture {
  readonly title: string
  readonly subtitle: string
  readonly program: Program
  readonly spansOf: (rank: Rank) => readonly Span[]
  readonly ranks: readonly Rank[]
  /** Seconds of the step. */
  readonly end: number
}

/** Two digits of a microbatch need so many points; the page is not wider than this, whatever they need. */
const digits = 15
const [narrowest, widest] = [640, 2400]

export function stepTimeline({ title, subtitle, program, spansOf, ranks, end }: StepPicture): Timeline {
  const boxes = ranks.map(rank => boxesOf(program, spansOf(rank), end))
  const links = [...new Set(boxes.flatMap(({ network }) => [...network.keys()]))]
  const tasks = boxes.flatMap(({ work }) => work.flatMap(box => (box.task ? [box.end - box.start] : [])))
  // The usual task, not the shortest: a stage without layers is a hair.
  const usual = tasks.length > 0 ? median(tasks) : end
  const width = Math.min(widest, Math.max(narrowest, (digits * end) / usual))
  const used = new Set(boxes.flatMap(({ work, network }) => [work, ...network.values()].flatMap(kindsOf)))
  return {
    ...{ title, subtitle, width, showTime: timeText(end) },
    kinds: boxKinds.filter(([kind]) => used.has(kind)).map(([kind, label]) => ({ kind, label })),
    lanes: ranks.map((rank, i): Lane => {
      const spans = spansOf(rank)
      return {
        label: `rank ${rank}`,
        spans: boxes[i].work.map(box => spanOf(box, chunksOf(program, rank), end)),
        strips: links.map(label => ({ label, spans: onLink(boxes[i], label, end) })),
        ...memoryTrack(program, rank, spans),
        note: `computes ${Math.round((100 * computing(spans)) / (end || 1))} %`,
      }
    }),
  }
}

/** Seconds with something on the compute lane. */
const computing = (spans: readonly Span[]): number =>
  spans.reduce((sum, { lane, start, end }) => (lane === 'compute' ? sum + end - start : sum), 0)

function memoryTrack(program: Program, rank: Rank, spans: readonly Span[]): Pick<Lane, 'profile'> {
  const [round] = roundsOf(spans)
  const points = round ? memoryOf(program, round) : []
  if (points.length === 0) return {}
  const totals = points.map(({ time, bytes }) => ({ time, value: kinds.reduce((sum, kind) => sum + bytes[kind], 0) }))
  const most = totals.reduce((peak, { value }) => Math.max(peak, value), 0)
  return { profile: { title: `memory of rank ${rank}: at most ${showBytes(most)}`, points: totals, most } }
}

const kindsOf = (boxes: readonly Box[]): string[] => boxes.map(({ kind }) => kind)

const onLink = ({ network }: Boxes, link: string, end: number): TimelineSpan[] =>
  (network.get(link) ?? []).map(box => ({ ...spanOf(box, [], end), title: `${titleOf(box, end)} over ${link}` }))

/** Stages that a rank holds, in the order it first runs them. */
function chunksOf(program: Program, rank: Rank): readonly number[] {
  const stages = new Set<number>()
  for (const step of streamOf(program, rank)?.steps ?? [])
    if (step.kind === 'call' && step.block >= 0) stages.add(program.blocks[step.block].stage)
  return [...stages]
}

function spanOf(box: Box, chunks: readonly number[], end: number): TimelineSpan {
  const { kind, task, start, end: to } = box
  return {
    ...{ start, end: to, kind, text: task ? String(task.microbatch) : '', title: titleOf(box, end) },
    ...(task && chunks.length > 1 ? { chunk: Math.max(0, chunks.indexOf(task.stage)) } : {}),
  }
}

function titleOf({ kind, task, start, end }: Box, step: number): string {
  const [, label] = boxKinds.find(([name]) => name === kind)!
  const show = timeText(step, 2)
  const what = task ? `${label}, stage ${task.stage}, microbatch ${task.microbatch}` : label
  return `${what}: ${show(start)} to ${show(end)}`
}

/** Times in the unit that suits the length of the step. */
function timeText(end: number, more = 0): (seconds: number) => string {
  const [by, unit] = end >= 1 ? [1, 's'] : end >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs']
  const digits = more + Math.max(0, Math.ceil(1.3 - Math.log10(end * by || 1)))
  return seconds => `${(seconds * by).toFixed(digits)} ${unit}`
}
