/** A step as a timeline: a lane for each rank with its tasks, and under it a thin one for each link. */
import type { Rank } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { type Span, streamOf } from '../trace/index.js'
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
  readonly noteOf?: (rank: Rank) => string
}

/** Two digits of a microbatch need so many points; the page is not wider than this, whatever they need. */
const digits = 15
const [narrowest, widest] = [1200, 2400]

export function stepTimeline({ title, subtitle, program, spansOf, ranks, end, noteOf }: StepPicture): Timeline {
  const boxes = ranks.map(rank => boxesOf(program, spansOf(rank), end))
  const links = [...new Set(boxes.flatMap(({ network }) => [...network.keys()]))]
  const tasks = boxes.flatMap(({ work }) => work.flatMap(box => (box.task ? [box.end - box.start] : [])))
  const shortest = tasks.reduce((least, time) => Math.min(least, time), end)
  const width = Math.min(widest, Math.max(narrowest, (digits * end) / shortest))
  const used = new Set(boxes.flatMap(({ work, network }) => [work, ...network.values()].flatMap(kindsOf)))
  return {
    ...{ title, subtitle, width, showTime: timeText(end) },
    kinds: boxKinds.filter(([kind]) => used.has(kind)).map(([kind, label]) => ({ kind, label })),
    lanes: ranks.map((rank, i): Lane => {
      const note = noteOf?.(rank)
      return {
        label: `rank ${rank}`,
        spans: boxes[i].work.map(box => spanOf(box, chunksOf(program, rank), end)),
        strips: links.map(label => ({ label, spans: onLink(boxes[i], label, end) })),
        ...(note === undefined ? {} : { note }),
      }
    }),
  }
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
