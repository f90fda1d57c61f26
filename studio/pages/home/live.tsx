/**
 * Four ranks that train by themselves: as threads where the page may share memory, else one after the other in the interpreter. Loaded
 * after the first paint, ended when the page is left or hidden; whoever wants no motion starts it by hand.
 */
import type { StepView } from 'lockstep'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { threads } from '../../base/isolation.js'
import { defineText } from '../../base/language.js'
import { fixed, short } from '../../base/numbers.js'
import { linkTo } from '../../base/router.js'
import { Figure } from '../../parts/figure.js'
import { Timeline } from '../../parts/timeline/index.js'
import type { Line, Told } from '../../work/run.js'
import { type Driver, startInPage } from '../run/driver.js'
import { demoJob, textOfJobs } from '../run/jobs.js'
import { timelineOfStep } from '../run/measured.js'

const text = defineText(
  {
    title: 'A training of four ranks, live',
    resting: 'Four ranks can train a small GPT here.',
    starting: 'Four ranks are starting …',
    caption: (step: number, steps: number, first: string, last: string, rate: string) =>
      `Step ${step} of ${steps}: the loss went from ${first} to ${last}, at ${rate} tokens a second.`,
    threads:
      'Ranks are threads of this browser, two stages of a pipeline twice: what each did in the last step that was looked at.',
    interpreted: 'Without threads, four data parallel ranks take turns in the interpreter.',
    start: 'Start',
    again: 'Again',
    stop: 'Stop',
    more: 'Run your own, and break it',
    head: ['Step', 'Loss'],
    curve: 'Loss by step',
  },
  {
    title: '四个 rank 正在训练',
    resting: '可以在这里用四个 rank 训练一个小 GPT。',
    starting: '四个 rank 正在启动……',
    caption: (step: number, steps: number, first: string, last: string, rate: string) =>
      `第 ${step} 步，共 ${steps} 步：损失从 ${first} 变为 ${last}，每秒 ${rate} 个 token。`,
    threads: 'rank 是浏览器里的线程，两级流水线，两份数据并行；下面是最近一次观察到的一步里各个 rank 做了什么。',
    interpreted: '没有线程时，四个数据并行的 rank 在解释器里轮流执行。',
    start: '开始',
    again: '再来一次',
    stop: '停止',
    more: '自己运行，再弄坏它',
    head: ['步', '损失'],
    curve: '每一步的损失',
  },
)

/** Milliseconds between two looks at what ranks do. */
const pause = 1000

interface Shown {
  readonly state: 'resting' | 'starting' | 'running' | 'ended'
  readonly steps: number
  readonly losses: readonly number[]
  readonly last?: Line
  readonly view?: StepView
  readonly failed?: string
}

const resting: Shown = { state: 'resting', steps: 0, losses: [] }
const isLive = ({ state }: Shown): boolean => state === 'starting' || state === 'running'

export default function Live() {
  const { shown, start, stop } = useTraining()
  const words = text()
  const { losses, last, view, state, steps } = shown
  const data = useMemo(() => view && timelineOfStep(view.measured, view.measured.seconds), [view])
  const caption = last
    ? words.caption(last.step, steps, fixed(losses[0]!, 2), fixed(losses.at(-1)!, 2), short(last.tokensPerSecond))
    : state === 'resting'
      ? words.resting
      : words.starting
  const every = Math.max(1, Math.ceil(losses.length / 20))
  const body = losses.flatMap((loss, n) => (n % every === 0 ? [[n + 1, fixed(loss, 3)]] : []))
  return (
    <Figure title={words.title} caption={caption} rows={{ head: words.head, body }}>
      <div data-live={state} data-steps={losses.length}>
        <p class="tools">
          <button type="button" class="quiet" onClick={isLive(shown) ? stop : start}>
            {isLive(shown) ? words.stop : state === 'resting' ? words.start : words.again}
          </button>
          <a href={linkTo('run')}>{words.more}</a>
        </p>
        {shown.failed !== undefined && (
          <p role="alert" lang="en">
            {shown.failed}
          </p>
        )}
        <Curve losses={losses} steps={steps} />
        <p>
          <small>{threads.value ? words.threads : words.interpreted}</small>
        </p>
        {data && <Timeline data={data} follows />}
      </div>
    </Figure>
  )
}

/** One training at a time; nothing of it outlives the page. */
function useTraining() {
  const [shown, show] = useState<Shown>(resting)
  const driver = useRef<Driver>(undefined)
  const generation = useRef(0)
  const stop = () => {
    generation.current++
    driver.current?.leave()
    driver.current = undefined
    show(now => (isLive(now) ? { ...now, state: 'ended' } : now))
  }
  const start = async () => {
    stop()
    const own = generation.current
    const put = (next: (now: Shown) => Shown) => own === generation.current && show(next)
    const { job, steps } = demoJob(threads.value)
    put(() => ({ state: 'starting', steps, losses: [] }))
    const files = await textOfJobs()
    if (own !== generation.current) return
    driver.current = startInPage(
      { job, files, steps, sample: '', keepGoing: false, leaves: false },
      {
        told: told => put(now => withTold(now, told)),
        noted() {}, // of servers
        files: () => {}, // none are asked for
        ended: ({ problems: [first] }) =>
          put(now => ({ ...now, state: 'ended', ...(first && { failed: first.message }) })),
      },
    )
  }
  useEffect(() => {
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches
    if (!still && !document.hidden) void start()
    const look = setInterval(() => driver.current?.look(), pause)
    const hide = () => document.hidden && stop()
    document.addEventListener('visibilitychange', hide)
    return () => {
      stop()
      clearInterval(look)
      document.removeEventListener('visibilitychange', hide)
    }
  }, [])
  return { shown, stop, start: () => void start() }
}

function withTold(now: Shown, told: Told): Shown {
  if (told.kind === 'view') return { ...now, view: told.view }
  if (told.kind !== 'lines') return now
  const lines = told.lines.filter((line): line is Line => 'loss' in line)
  const last = lines.at(-1)
  return {
    ...{ ...now, state: 'running', losses: [...now.losses, ...lines.map(({ loss }) => loss)] },
    ...(last && { last }),
  }
}

const [width, height] = [400, 110]

/** From the largest loss at the top to the least; as wide as all steps there will be. */
function Curve({ losses, steps }: Pick<Shown, 'losses' | 'steps'>) {
  const sound = losses.filter(Number.isFinite)
  const [most, least] = [Math.max(...sound, 0.1), Math.min(...sound, 0)]
  const x = (n: number) => (n / Math.max(1, steps - 1)) * width
  const y = (loss: number) => 6 + ((most - loss) / (most - least)) * (height - 12)
  const points = losses.map((loss, n) => `${x(n).toFixed(1)},${y(loss).toFixed(1)}`).join(' ')
  return (
    <svg
      class="loss-curve"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={text().curve}
    >
      <polyline points={points} />
    </svg>
  )
}
