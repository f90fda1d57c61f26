/** Losses by step, drawn by uPlot, which is loaded when there is something to draw. */
import { useEffect, useRef } from 'preact/hooks'
import type uPlot from 'uplot'
import { fixed } from '../../base/numbers.js'
import { theme } from '../../base/theme.js'
import { Steps, Toggle } from '../../parts/controls.js'
import { Figure } from '../../parts/figure.js'
import { type Asked, change } from './link.js'
import type { Shown } from './state.js'
import { text } from './text.js'

interface CurveProps {
  readonly run: Shown | undefined
  readonly asked: Asked
}

const smoothings = [0, 0.3, 0.6, 0.8, 0.9, 0.95]
/** Rows of the table: as many as one reads. */
const mostRows = 40

export function Curve({ run, asked }: CurveProps) {
  const words = text()
  const { steps = [], losses = [], held = [] } = run ?? {}
  const sound = losses.filter(Number.isFinite)
  const judged = held.findLast(Number.isFinite)
  const caption =
    sound.length === 0
      ? words.nothing
      : words.curveCaption(
          fixed(sound[0]!, 3),
          fixed(sound.at(-1)!, 3),
          steps.length,
          judged === undefined ? '' : fixed(judged, 3),
        )
  const every = Math.max(1, Math.ceil(steps.length / mostRows))
  const rows = steps.flatMap((step, i) =>
    i % every === 0 || i === steps.length - 1
      ? [[step, fixed(losses[i]!, 4), Number.isFinite(held[i]) ? fixed(held[i]!, 4) : '']]
      : [],
  )
  return (
    <Figure title={words.curve} caption={caption} rows={{ head: [words.step, words.loss, words.heldOut], body: rows }}>
      <div class="controls">
        <Toggle label={words.log} value={asked.log} change={on => change({ scale: on ? 'log' : undefined })} />
        <Steps
          label={words.smooth}
          steps={smoothings}
          value={asked.smooth}
          change={value => change({ smooth: String(value) }, false)}
          settle={value => change({ smooth: String(value) })}
        />
      </div>
      {sound.length > 0 && run && <Chart run={run} asked={asked} />}
    </Figure>
  )
}

function Chart({ run, asked: { log, smooth } }: CurveProps & { readonly run: Shown }) {
  const words = text()
  const box = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot>(undefined)
  const data = dataOf(run, smooth)
  const latest = useRef(data)
  latest.current = data
  const now = theme.value
  useEffect(() => {
    let gone = false
    const names = { loss: words.loss, smoothed: words.smoothed, held: words.heldOut }
    void loadPlot().then(Plot => {
      if (gone || !box.current) return
      chart.current = new Plot(optionsOf(box.current, log, names), latest.current, box.current)
    })
    const watch = new ResizeObserver(([entry]) =>
      chart.current?.setSize({ width: Math.max(200, entry!.contentRect.width), height }),
    )
    watch.observe(box.current!)
    return () => {
      gone = true
      watch.disconnect()
      chart.current?.destroy()
      chart.current = undefined
    }
  }, [log, now, words])
  useEffect(() => chart.current?.setData(data), [run.steps, smooth])
  return <div class="curve" ref={box} aria-hidden="true" />
}

const height = 260
/** How far ticks of steps lie apart: there is no half step. */
const wholes = Array.from({ length: 8 }, (_, n) => [1, 2, 5].map(each => each * 10 ** n)).flat()

async function loadPlot(): Promise<typeof uPlot> {
  const [{ default: Plot }] = await Promise.all([import('uplot'), import('uplot/dist/uPlot.min.css')])
  return Plot
}

function dataOf({ steps, losses, held }: Shown, smooth: number): uPlot.AlignedData {
  const known = (values: readonly number[]) => values.map(value => (Number.isFinite(value) ? value : null))
  return [[...steps], known(losses), known(smoothed(losses, smooth)), known(held)]
}

/** An average that forgets; its first values count as much as those that follow. */
export function smoothed(values: readonly number[], keep: number): number[] {
  let [mean, weight] = [0, 0]
  return values.map(value => {
    if (!Number.isFinite(value)) return Number.NaN
    mean = keep * mean + (1 - keep) * value
    weight = keep * weight + (1 - keep)
    return mean / weight
  })
}

function optionsOf(
  box: HTMLElement,
  log: boolean,
  names: Readonly<Record<'loss' | 'smoothed' | 'held', string>>,
): uPlot.Options {
  const style = getComputedStyle(box)
  const ink = (name: string) => style.getPropertyValue(name).trim()
  const axis = { stroke: ink('--soft'), grid: { stroke: ink('--edge'), width: 1 }, ticks: { stroke: ink('--edge') } }
  return {
    width: Math.max(200, box.clientWidth),
    height,
    legend: { live: false },
    cursor: { drag: { x: false, y: false } },
    scales: { x: { time: false }, y: { distr: log ? 3 : 1 } },
    axes: [
      { ...axis, incrs: wholes },
      { ...axis, size: 56 },
    ],
    series: [
      {},
      { label: names.loss, stroke: ink('--other'), width: 1, points: { show: false } },
      { label: names.smoothed, stroke: ink('--F'), width: 2, points: { show: false } },
      {
        label: names.held,
        stroke: ink('--B'),
        width: 2,
        spanGaps: true,
        dash: [6, 4],
        points: { show: true, size: 7 },
      },
    ],
  }
}
