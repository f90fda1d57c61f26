/** Overlap: collectives that run beside compute cost nothing as long as there is compute to hide them. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { onJob, planQuery } from '../../base/links.js'
import { percent, seconds, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { BarsFigure } from '../../parts/bars-figure.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { JobText } from '../../work/jobs.js'
import { timesOf } from './times.js'

const text = defineText(
  {
    claim:
      'A collective does not need the cores that multiply. Started as early as its input is there and waited for as late as its result is needed, it runs beside the compute, and only what sticks out costs time.',
    title: 'The same step, waiting or not',
    name: (zero: number, overlap: boolean) => `ZeRO-${zero}, ${overlap ? 'overlapped' : 'one after the other'}`,
    caption: (zero: number, before: string, after: string, hidden: string) =>
      `Under ZeRO-${zero} a step takes ${before} when ranks wait for each collective and ${after} when they go on: ${hidden} of the waiting is hidden.`,
    plan: 'Plan',
    step: 'Step',
    model: 'Model',
    ranks: 'H100s, data parallel',
    zero: 'ZeRO stage of the text below',
    sequences: 'Sequences a rank',
    sentence: (exposed: string, share: string) =>
      `${exposed} of waiting for data parallel traffic sticks out, ${share} of the step.`,
    letters:
      'Time of a step T, of its compute C, of its communication K. Overlapped, a step is never shorter than the longer of the two.',
    question:
      'One sequence a rank on 64 ranks, overlapped: how many per cent of the step are waiting that nothing hides?',
    share: (n: string) => `${n} %`,
    why: 'The bytes of gradients stay, the compute to hide them behind gets less: small batches expose traffic.',
    notice: [
      'Overlap takes no byte off the wire. It needs compute that does not depend on the result: the other layers.',
      'The first gather and the last reduce have nothing to hide behind; that is what sticks out even in the best case.',
      'Collectives that run beside compute slow it a little, since both read the same memory. The simulator takes 12 % of the compute they run beside.',
    ],
  },
  {
    claim:
      '通信用不着做乘法的那些计算核心。输入一准备好就发起，结果用到时才等待，通信就和计算同时进行，只有露出来的那一截才费时间。',
    title: '同一步，等与不等',
    name: (zero: number, overlap: boolean) => `ZeRO-${zero}，${overlap ? '重叠' : '依次进行'}`,
    caption: (zero: number, before: string, after: string, hidden: string) =>
      `ZeRO-${zero} 下，每次通信都干等，一步要 ${before}；边算边传，一步 ${after}：等待时间藏起了 ${hidden}。`,
    plan: '方案',
    step: '一步',
    model: '模型',
    ranks: '数据并行的 H100 数',
    zero: '下文用哪一级 ZeRO',
    sequences: '每个 rank 的序列数',
    sentence: (exposed: string, share: string) => `露在外面的数据并行等待有 ${exposed}，占一步的 ${share}。`,
    letters: 'T：一步的时间；C：计算；K：通信。重叠之后，一步也不会短于两者中较长的那个。',
    question: '64 个 rank，每个 rank 只有一条序列，开着重叠：没能藏起来的等待占一步的百分之几？',
    share: (n: string) => `${n} %`,
    why: '梯度的字节数不变，可以用来遮掩的计算却少了：批次小，通信就露出来。',
    notice: [
      '重叠不会少传一个字节；它需要与结果无关的计算，也就是别的层。',
      '最先的 gather 和最后的 reduce 没有东西可以遮掩，所以再好也会露出一截。',
      '通信与计算同时进行时会互相抢内存带宽，计算会慢一点；模拟器按慢 12 % 计。',
    ],
  },
)

const table = {
  model: oneOf(['gpt2-xl', 'llama2-7b', 'llama2-13b'], 'llama2-7b'),
  ranks: oneOf([8, 16, 32, 64], 16),
  sequences: oneOf([1, 2, 4], 2),
  zero: oneOf([0, 1, 2, 3], 3),
}

const formula = tex`\displaystyle \max(C, K) \le T \le C + K = \class{live}{\text{sum}} \qquad T = \class{live}{\text{step}}`

interface Chosen {
  readonly model: string
  readonly ranks: number
  readonly sequences: number
  readonly zero: number
}

const jobOf = ({ model, ranks, sequences, zero }: Chosen, overlap: boolean): JobText => ({
  model,
  training: { seq: 1024, globalBatch: ranks * sequences },
  plan: { dp: ranks, zero, precision: 'bf16', ...(!overlap && { overlap }) },
})

export default function Overlap() {
  const knobs = readKnobs(table)
  const { zero } = knobs.chosen
  const jobs = [false, true].map(overlap => jobOf(knobs.chosen, overlap))
  const { value, refusal, pending } = useAnswer('fast', ['compared', 'compared'], { jobs, device: 'h100' })
  const words = text()
  const [waits, goesOn] = value ?? []
  const caption =
    waits && goesOn
      ? words.caption(zero, seconds(waits.step), seconds(goesOn.step), percent(1 - goesOn.parts.dp / waits.parts.dp))
      : ''
  const fewer = async () => {
    const one = { ...knobs.chosen, sequences: 1, ranks: 64 }
    const [answer] = await ask('fast', ['compared', 'compared'], { jobs: [jobOf(one, true)], device: 'h100' })
    return (100 * answer!.parts.dp) / answer!.step
  }
  return (
    <Lesson
      name="overlap"
      claim={words.claim}
      controls={
        <Controls
          knobs={knobs}
          labels={{
            model: { label: words.model },
            ranks: { label: words.ranks },
            sequences: { label: words.sequences },
            zero: { label: words.zero },
          }}
        />
      }
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <BarsFigure
            title={words.title}
            caption={caption}
            bars={(value ?? []).map((each, n) => ({ label: words.name(zero, n === 1), parts: timesOf(each) }))}
            show={seconds}
            head={[words.plan, words.step]}
            pending={pending}
          />
        </>
      }
      sentence={goesOn && words.sentence(seconds(goesOn.parts.dp), percent(goesOn.parts.dp / goesOn.step))}
      formula={{
        math: formula,
        live: waits && goesOn ? { sum: seconds(waits.step), step: seconds(goesOn.step) } : {},
        letters: words.letters,
      }}
      guess={{ question: words.question, run: fewer, show: n => words.share(short(n)), why: () => words.why, min: 0 }}
      notice={words.notice}
      open={{ plan: planQuery(jobs[1]!, 'h100') }}
      command={onJob(jobs[1]!, 'simulate - --cluster h100')}
    />
  )
}
