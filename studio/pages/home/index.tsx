/** Three doors, and something that runs by itself. */
import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { threads } from '../../base/isolation.js'
import { defineText } from '../../base/language.js'
import { percent } from '../../base/numbers.js'
import { linkTo } from '../../base/router.js'
import { Choice, Steps } from '../../parts/controls.js'
import { Figure } from '../../parts/figure.js'
import { Pipeline } from '../../parts/pipeline.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import type { ScheduleInput } from '../../work/schedule.js'

const text = defineText(
  {
    title: 'One program for every rank: proved, simulated, run',
    claim:
      'Nothing on these pages is a drawing. The compiler, the simulator and the engine run in this browser, and every number is theirs.',
    doors: {
      plan: 'Plan',
      planWhat:
        'Choose how a model lies on a cluster nobody has rented yet; see what a step takes, what fits, and why.',
      learn: 'Learn',
      learnWhat: 'Every concept of distributed training, one page each, by running it.',
      run: 'Run',
      runWhat: 'Train a small model with ranks as threads, here or on this machine, and break it on purpose.',
    },
    noThreads:
      'This page may not share memory here: its host sends no headers that isolate it, and no service worker could add them. Everything works but threads; the interpreter runs their ranks.',
    demo: 'A pipeline, as it is scheduled',
    stages: 'Stages',
    microbatches: 'Microbatches',
    schedule: 'Schedule',
    caption: (name: string, bubble: string, ticks: number, peak: string) =>
      `${name}: a step takes ${ticks} ticks, ranks idle ${bubble} of the time, and hold at most ${peak} ${peak === '1' ? 'activation' : 'activations'} at once.`,
    rank: 'Rank',
    held: 'Activations held',
  },
  {
    title: '每个 rank 同一份程序：可证明、可模拟、可运行',
    claim: '这里没有一张图是画出来的。编译器、模拟器和引擎都在浏览器里运行，每个数字都由它们算出。',
    doors: {
      plan: '规划',
      planWhat: '决定模型怎样摆放到一个还没租下的集群上：一步要多久、放不放得下、为什么。',
      learn: '学习',
      learnWhat: '分布式训练的每个概念一页，边运行边学。',
      run: '运行',
      runWhat: '用线程当 rank 训练一个小模型，在浏览器里或在本机上，还可以故意弄坏它。',
    },
    noThreads:
      '本页在这里不能共享内存：主机没有发送隔离所需的响应头，也没能由 service worker 补上。除线程外一切照常，rank 由解释器代为运行。',
    demo: '一条流水线的调度',
    stages: 'stage 数',
    microbatches: '微批次',
    schedule: '调度',
    caption: (name: string, bubble: string, ticks: number, peak: string) =>
      `${name}：一步用 ${ticks} 个时间单位，空闲占 ${bubble}，同时最多保留 ${peak} 份激活值。`,
    rank: 'Rank',
    held: '保留的激活值',
  },
)

const schedules = ['gpipe', '1f1b', 'zb-h1'] as const
const counts = [1, 2, 4, 6, 8, 12, 16] as const

const first: ScheduleInput = { name: '1f1b', ranks: 4, microbatches: 8, chunks: 1, cost: { F: 1, I: 1, W: 1, C: 0 } }

export default function Home() {
  const words = text()
  return (
    <article class="home">
      <h1>{words.title}</h1>
      <p class="lead">{words.claim}</p>
      <Doors />
      {!threads.value && <p role="note">{words.noThreads}</p>}
      <div class="demos">
        <Later />
        <div>
          <Demo />
        </div>
      </div>
    </article>
  )
}

/** The live training, loaded when the page has been painted and there is nothing else to do. */
function Later() {
  const [Live, show] = useState<ComponentType>()
  useEffect(() => {
    let left = false
    const load = () => void import('./live.js').then(live => left || show(() => live.default))
    // A browser that cannot tell when it has nothing to do is given time to paint.
    const idle = 'requestIdleCallback' in globalThis
    const waiting = idle ? requestIdleCallback(load) : Number(setTimeout(load, 500))
    return () => {
      left = true
      if (idle) cancelIdleCallback(waiting)
      else clearTimeout(waiting)
    }
  }, [])
  return <div class="later">{Live && <Live />}</div>
}

function Doors() {
  const { doors } = text()
  const all = [
    ['plan', doors.plan, doors.planWhat],
    ['learn', doors.learn, doors.learnWhat],
    ['run', doors.run, doors.runWhat],
  ] as const
  return (
    <ul class="doors">
      {all.map(([name, title, what]) => (
        <li key={name}>
          <a href={linkTo(name)}>
            <strong>{title}</strong>
            <span>{what}</span>
          </a>
        </li>
      ))}
    </ul>
  )
}

function Demo() {
  const [input, set] = useState<ScheduleInput>(first)
  const { value, refusal, pending } = useAnswer('fast', ['schedule', 'lay'], input)
  const words = text()
  if (refusal) return <Trouble why={refusal} />
  const caption =
    value && words.caption(input.name, percent(value.bubble), value.makespan, String(Math.max(...value.peak)))
  const rows = { head: [words.rank, words.held], body: (value?.peak ?? []).map((held, rank) => [rank, held]) }
  return (
    <>
      <div class="controls">
        <Choice
          label={words.schedule}
          options={schedules.map(value => ({ value, label: value }))}
          value={input.name}
          change={name => set({ ...input, name })}
        />
        <Steps
          label={words.stages}
          steps={counts}
          value={input.ranks as (typeof counts)[number]}
          change={ranks => set({ ...input, ranks })}
        />
        <Steps
          label={words.microbatches}
          steps={counts}
          value={input.microbatches as (typeof counts)[number]}
          change={microbatches => set({ ...input, microbatches })}
        />
      </div>
      <Figure title={words.demo} caption={caption ?? '…'} rows={rows} pending={pending}>
        {value && <Pipeline rows={value.rows} makespan={value.makespan} label={caption ?? ''} />}
      </Figure>
    </>
  )
}
