/** One plan as the frameworks of several years would run it: priced, since their programs are not ours. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { onJob, planQuery } from '../../base/links.js'
import { bytes, percent, seconds, short } from '../../base/numbers.js'
import { Bars, Legend } from '../../parts/bars.js'
import { Figure } from '../../parts/figure.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { Era } from '../../work/cases-lessons.js'
import { run, runLabel } from './cases-runs.js'
import { timesOf } from './times.js'

const text = defineText(
  {
    claim:
      'A plan alone does not say what a step takes; the software that runs it does. Here the same plan is priced as Megatron-LM of several years, Megatron-DeepSpeed, FSDP, torchtitan and Lockstep run it: what they fuse, what they hide behind compute, what they wait for.',
    model: 'Model',
    title: (n: number) => `One plan on 64 A100, as ${n} programs run it`,
    caption: (fast: string, least: string, slow: string, most: string, times: string) =>
      `The fastest is ${fast} with ${least} a step, the slowest ${slow} with ${most}: ${times} times as long, with tp 8, pp 2 and dp 4 in all of them.`,
    head: ['Software', 'Step', 'MFU', 'Needs', 'Read from'],
    question: 'How many times as long does the slowest of them take as the fastest?',
    why: 'Where the host starts kernels one by one and slowly, devices wait for it: that is “other” in the longest bar. The rest is attention that is not fused, and collectives that nothing hides.',
    notice: [
      'The plan is the same to the letter: tp, pp, dp, microbatches, recomputation. Only the program differs.',
      'Where attention is not fused, scores go through memory, and longer sequences cost more than their arithmetic.',
      'A collective costs what sticks out of it: two programs with the same bytes on the wire can wait for very different times.',
    ],
  },
  {
    claim:
      '方案本身并不决定一步要多久，运行它的软件才决定。这里把同一方案按几个年份的 Megatron-LM、Megatron-DeepSpeed、FSDP、torchtitan 和 Lockstep 的做法分别计价：融合了什么，藏在计算后面的是什么，干等的又是什么。',
    model: '模型',
    title: (n: number) => `64 张 A100 上的同一方案，${n} 种软件`,
    caption: (fast: string, least: string, slow: string, most: string, times: string) =>
      `最快的是 ${fast}，一步 ${least}；最慢的是 ${slow}，一步 ${most}，是前者的 ${times} 倍。它们都是 tp 8、pp 2、dp 4。`,
    head: ['软件', '一步', 'MFU', '需要', '依据'],
    question: '其中最慢的一步是最快的几倍？',
    why: '主机逐个启动 kernel 又启动得慢，设备就要等它：最长那条里的“其他”就是。其余来自没有融合的注意力，以及没能掩盖的集合通信。',
    notice: [
      '方案一字不差：tp、pp、dp、微批次、重计算都相同，不同的只有程序。',
      '注意力没有融合时，分数要进出显存，序列越长，多付的就越多。',
      '集合通信的代价只是露出来的那一截：线上字节相同的两个程序，等待的时间可以差很多。',
    ],
  },
)

const table = { run, model: oneOf(['megatron-7.5b', 'megatron-18b', 'llama2-13b'], 'megatron-18b') }

export function Eras() {
  const knobs = readKnobs(table)
  const { model } = knobs.chosen
  const { value = [], refusal, pending } = useAnswer('fast', ['cases', 'eras'], { model })
  const words = text()
  const order = [...value].sort((a, b) => a.step - b.step)
  const [fast, slow] = [order[0], order.at(-1)]
  const caption =
    fast && slow
      ? words.caption(fast.name, seconds(fast.step), slow.name, seconds(slow.step), short(slow.step / fast.step))
      : '…'
  const slower = async () => {
    const steps = (await ask('fast', ['cases', 'eras'], { model })).map(({ step }) => step)
    return Math.max(...steps) / Math.min(...steps)
  }
  const first = value.find(({ name }) => name === 'megatron-2021')
  return (
    <Lesson
      name="cases"
      claim={words.claim}
      controls={<Controls knobs={knobs} labels={{ run: runLabel(), model: { label: words.model } }} />}
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Programs eras={value} caption={caption} pending={pending} />
        </>
      }
      guess={{ question: words.question, run: slower, why: () => words.why, min: 1 }}
      notice={words.notice}
      open={{ ...(first && { plan: planQuery(first.job, 'a100-80') }) }}
      command={first ? onJob(first.job, 'explain - --cluster a100-80 --software megatron-2021') : 'lockstep explain -'}
      says={first && { field: 'step', value: first.step }}
    />
  )
}

interface ProgramsProps {
  readonly eras: readonly Era[]
  readonly caption: string
  readonly pending: boolean
}

function Programs({ eras, caption, pending }: ProgramsProps) {
  const words = text()
  const bars = eras.map(era => ({ label: era.name, parts: timesOf(era) }))
  const body = eras.map(({ name, step, mfu, bytes: held, sources }) => [
    ...[name, seconds(step), percent(mfu), bytes(held)],
    sources.join('; '),
  ])
  return (
    <Figure title={words.title(eras.length)} caption={caption} rows={{ head: words.head, body }} pending={pending}>
      <Bars bars={bars} show={seconds} label={caption} />
      <Legend bars={bars} />
    </Figure>
  )
}
