/** Loss at several batch sizes, trained in this page when the reader asks for it. */
import { useState } from 'preact/hooks'
import { threads } from '../../base/isolation.js'
import { type Knobs, oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { onJob } from '../../base/links.js'
import { narrow } from '../../base/narrow.js'
import { count, fixed } from '../../base/numbers.js'
import { Command } from '../../parts/command.js'
import { Figure } from '../../parts/figure.js'
import { Controls } from '../../parts/knobs.js'
import { Trouble } from '../../parts/trouble.js'
import { ask, Refused } from '../../work/ask.js'
import type { BatchRun, Fair, Rate } from '../../work/batch-lessons.js'
import type { Refusal } from '../../work/protocol.js'
import './batch-curves.css'

const text = defineText(
  {
    title: 'Loss over tokens, batch by batch, trained here',
    fair: 'Each batch size is given',
    fairs: { tokens: 'as many tokens', steps: 'as many steps' },
    rate: 'Learning rate',
    rates: { same: 'the same for all', scaled: 'by the root of the batch' },
    start: 'Train all five here',
    again: 'Train again',
    running: (batch: number) => `Batch ${batch} is training …`,
    nothing:
      'Two ranks train a small GPT of one layer, once for each of five batch sizes. Nothing has been trained yet.',
    caption: (small: BatchRun, large: BatchRun, lossOf: (run: BatchRun) => string) =>
      `Batch ${small.batch} took ${count(small.losses.length)} steps to a held-out loss of ${lossOf(small)}, batch ${large.batch} took ${count(large.losses.length)} steps to ${lossOf(large)}.`,
    best: (batch: number) => `Lowest at the end: batch ${batch}.`,
    head: ['Batch', 'Steps', 'Sequences seen', 'First loss', 'Last loss', 'Held-out loss'],
    axis: 'sequences seen',
    loss: 'loss',
    batch: (n: number) => `batch ${n}`,
  },
  {
    title: '各种 batch 的损失随 token 的变化，就在这里训练',
    fair: '每种 batch 得到',
    fairs: { tokens: '同样多的 token', steps: '同样多的步数' },
    rate: '学习率',
    rates: { same: '都一样', scaled: '按 batch 的平方根' },
    start: '在这里训练五次',
    again: '再训练一次',
    running: (batch: number) => `正在训练 batch ${batch}……`,
    nothing: '两个 rank 训练一个单层的小 GPT，五种 batch 各训练一次。还没有训练。',
    caption: (small: BatchRun, large: BatchRun, lossOf: (run: BatchRun) => string) =>
      `batch ${small.batch} 用 ${count(small.losses.length)} 步，留出损失 ${lossOf(small)}；batch ${large.batch} 用 ${count(large.losses.length)} 步，留出损失 ${lossOf(large)}。`,
    best: (batch: number) => `最后最低的是 batch ${batch}。`,
    head: ['batch', '步数', '见过的序列', '最初的损失', '最后的损失', '留出损失'],
    axis: '见过的序列',
    loss: '损失',
    batch: (n: number) => `batch ${n}`,
  },
)

const table = { fair: oneOf(['tokens', 'steps']), rate: oneOf(['same', 'scaled']) }

interface Shown {
  readonly runs: readonly BatchRun[]
  readonly busy: boolean
  readonly refusal?: Refusal
}

export function BatchCurves() {
  const knobs = readKnobs(table)
  const { fair, rate } = knobs.chosen
  // Other conditions, other runs: those that are shown belong to the ones chosen.
  return <Curves key={`${fair} ${rate}`} knobs={knobs} />
}

function Curves({ knobs }: { readonly knobs: Knobs<typeof table> }) {
  const { fair, rate } = knobs.chosen
  const [{ runs, busy, refusal }, put] = useState<Shown>({ runs: [], busy: false })
  const words = text()
  const begin = async () => {
    put({ runs: [], busy: true })
    try {
      const progress = (runs: unknown) => put({ runs: runs as readonly BatchRun[], busy: true }) // batches tells runs
      const input = { fair, rate, threads: threads.value }
      put({ runs: await ask('long', ['batch', 'batches'], input, { progress }), busy: false })
    } catch (error) {
      const why = error instanceof Refused ? error.why : { message: String(error), problems: [] }
      put({ runs: [], busy: false, refusal: why })
    }
  }
  const labels = {
    fair: { label: words.fair, show: (fair: Fair) => words.fairs[fair] },
    rate: { label: words.rate, show: (rate: Rate) => words.rates[rate] },
  }
  const caption = busy ? words.running(runs.at(-1)?.batch ?? 4) : runs.length > 0 ? captionOf(runs) : words.nothing
  return (
    <>
      {refusal && <Trouble why={refusal} />}
      <Figure title={words.title} caption={caption} rows={{ head: words.head, body: runs.map(rowOf) }} pending={busy}>
        <Controls knobs={knobs} labels={labels} />
        <p>
          <button type="button" disabled={busy} onClick={() => void begin()}>
            {runs.length > 0 ? words.again : words.start}
          </button>
        </p>
        {runs.length > 0 && <Lines runs={runs} label={caption} />}
      </Figure>
      {!busy && runs.length > 0 && <Command line={onJob(runs.at(-1)!.job, 'train - --kernels wasm')} />}
    </>
  )
}

const lossOf = ({ losses, heldOut = losses.at(-1) }: BatchRun): string => fixed(heldOut ?? Number.NaN, 3)

function captionOf(runs: readonly BatchRun[]): string {
  const words = text()
  const least = runs.reduce((best, run) => ((run.heldOut ?? 0) < (best.heldOut ?? 0) ? run : best))
  return `${words.caption(runs[0]!, runs.at(-1)!, lossOf)} ${words.best(least.batch)}`
}

const rowOf = (run: BatchRun) => [
  ...[String(run.batch), count(run.losses.length), count(run.losses.length * run.batch)],
  ...[fixed(run.losses[0]!, 3), fixed(run.losses.at(-1)!, 3), run.heldOut === undefined ? '' : fixed(run.heldOut, 3)],
]

const wide = { width: 720, height: 300, left: 36, right: 74, bottom: 30 }
const small = { width: 360, height: 280, left: 24, right: 70, bottom: 30 }
const kinds = ['F', 'B', 'I', 'W', 'optimizer']

/** Mean of a few steps: the loss of a batch of four jumps about. */
const smoothed = ({ losses, batch }: BatchRun): readonly { readonly seen: number; readonly loss: number }[] => {
  const every = Math.max(1, Math.round(64 / batch))
  return losses.flatMap((_, n) => {
    if ((n + 1) % every > 0) return []
    const some = losses.slice(n + 1 - every, n + 1)
    return [{ seen: (n + 1) * batch, loss: some.reduce((sum, loss) => sum + loss, 0) / every }]
  })
}

function Lines({ runs, label }: { readonly runs: readonly BatchRun[]; readonly label: string }) {
  const words = text()
  const { width, height, left, right, bottom } = narrow.value ? small : wide
  const lines = runs.map(run => ({ batch: run.batch, points: smoothed(run) }))
  const all = lines.flatMap(({ points }) => points)
  const most = { seen: Math.max(...all.map(({ seen }) => seen), 1), loss: Math.max(...all.map(({ loss }) => loss), 1) }
  const x = (seen: number) => left + (seen / most.seen) * (width - left - right)
  const y = (loss: number) => 8 + (1 - loss / most.loss) * (height - bottom - 8)
  const ticks = [0, 1, 2, 3].filter(tick => tick < most.loss)
  return (
    <svg class="batch-lines" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      {ticks.map(tick => (
        <g key={tick}>
          <line class="grid" x1={left} x2={width - right} y1={y(tick)} y2={y(tick)} />
          <text x={left - 6} y={y(tick) + 4} text-anchor="end">
            {tick}
          </text>
        </g>
      ))}
      <text x={left} y={height - 8}>{`${words.loss} / ${words.axis}`}</text>
      <text x={width - right} y={height - 8} text-anchor="end">
        {count(most.seen)}
      </text>
      {spread(
        lines.map(({ points }) => y(points.at(-1)?.loss ?? 0)),
        height - bottom,
      ).map((at, n) => {
        const { batch, points } = lines[n]!
        const end = points.at(-1)
        return (
          <g key={batch} class={`line ${kinds[n]}`}>
            <polyline
              points={points.map(({ seen, loss }) => `${x(seen).toFixed(1)},${y(loss).toFixed(1)}`).join(' ')}
            />
            {end && (
              <text x={Math.min(width - right, x(end.seen)) + 6} y={at + 4}>
                {words.batch(batch)}
              </text>
            )}
          </g>
        )
      })}
    </svg>
  )
}

/** Names at the ends of lines, moved apart where they would lie on each other. */
function spread(ends: readonly number[], lowest: number): number[] {
  const order = ends.map((at, n) => ({ at, n })).sort((a, b) => a.at - b.at)
  const places = [...ends]
  let last = Number.NEGATIVE_INFINITY
  for (const { at, n } of order) {
    last = Math.max(at, last + 15)
    places[n] = last
  }
  const over = Math.max(0, last - lowest)
  return places.map(place => place - over)
}
