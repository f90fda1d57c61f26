/** Overlap: collectives that run beside compute cost nothing as long as there is compute to hide them. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { onJob, planQuery } from '../../base/links.js'
import { bytes, count, percent, seconds, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { BarsFigure } from '../../parts/bars-figure.js'
import { Figure } from '../../parts/figure.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Timeline } from '../../parts/timeline/index.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { JobText } from '../../work/jobs.js'
import type { SteppedJob } from '../../work/steps.js'
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
    ranks: 'H100s, data parallel',
    zero: 'ZeRO stage',
    bucket: 'Bucket of gradients',
    bucketNote: 'ZeRO-3 takes layer by layer, whatever the bucket.',
    waits: 'One after the other',
    goesOn: 'Overlapped',
    timeline: 'One step of a rank: compute above, bytes under way below',
    timelineCaption: (flights: string, network: string, both: string, share: string) =>
      `Overlapped, ${flights} transfers are under way for ${network}, ${both} of it beside compute: ${share}.`,
    timelineHead: ['Plan', 'Step', 'Compute', 'Bytes under way', 'Both at once', 'Transfers'],
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
      'The first gather and the last reduce have nothing to hide behind. A bucket as large as the model waits for the last gradient, and then nothing is left to hide it.',
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
    ranks: '数据并行的 H100 数',
    zero: 'ZeRO 级别',
    bucket: '梯度桶的大小',
    bucketNote: 'ZeRO-3 总是逐层进行，与桶的大小无关。',
    waits: '依次进行',
    goesOn: '重叠',
    timeline: '一个 rank 的一步：上面是计算，下面是在途的字节',
    timelineCaption: (flights: string, network: string, both: string, share: string) =>
      `重叠时，${flights} 次传输共占 ${network}，其中 ${both} 与计算同时进行：${share}。`,
    timelineHead: ['方案', '一步', '计算', '字节在途', '两者同时', '传输次数'],
    sequences: '每个 rank 的序列数',
    sentence: (exposed: string, share: string) => `露在外面的数据并行等待有 ${exposed}，占一步的 ${share}。`,
    letters: 'T：一步的时间；C：计算；K：通信。重叠之后，一步也不会短于两者中较长的那个。',
    question: '64 个 rank，每个 rank 只有一条序列，开着重叠：没能藏起来的等待占一步的百分之几？',
    share: (n: string) => `${n} %`,
    why: '梯度的字节数不变，可以用来遮掩的计算却少了：batch 小，通信就露出来。',
    notice: [
      '重叠不会少传一个字节；它需要与结果无关的计算，也就是别的层。',
      '最先的 gather 和最后的 reduce 没有东西可以遮掩。桶要是和模型一样大，就得等最后一个梯度算完，那时已没有计算可以遮掩它了。',
      '通信与计算同时进行时会互相抢内存带宽，计算会慢一点；模拟器按慢 12 % 计。',
    ],
  },
)

const table = {
  ranks: oneOf([8, 16, 32, 64], 16),
  sequences: oneOf([1, 2, 4, 8], 4),
  zero: oneOf([0, 1, 2, 3], 1),
  bucket: oneOf([25, 250, 2048, 16384], 25),
}

const formula = tex`\displaystyle \max(C, K) \le T \le C + K = \class{live}{\text{sum}} \qquad T = \class{live}{\text{step}}`

interface Chosen {
  readonly ranks: number
  readonly sequences: number
  readonly zero: number
  readonly bucket: number
}

const mebi = 2 ** 20

const jobOf = ({ ranks, sequences, zero, bucket }: Chosen, overlap: boolean): JobText => ({
  model: 'gpt2-xl',
  training: { seq: 1024, globalBatch: ranks * sequences },
  plan: { dp: ranks, zero, precision: 'bf16', bucket: bucket * mebi, ...(!overlap && { overlap }) },
})

/** As few layers as show the order: what is started, what is computed meanwhile, what is waited for. */
const small = ({ zero }: Chosen): JobText => ({
  model: { family: 'gpt', layers: 3, embed: 64, heads: 4, vocab: 256 },
  training: { seq: 32, globalBatch: 4 },
  plan: { dp: 4, zero, precision: 'bf16', bucket: mebi / 8 },
})

export default function Overlap() {
  const knobs = readKnobs(table)
  const { zero } = knobs.chosen
  const jobs = [false, true].map(overlap => jobOf(knobs.chosen, overlap))
  const { value, refusal, pending } = useAnswer('fast', ['compared', 'compared'], { jobs, device: 'h100' })
  const code = useAnswer('fast', ['excerpts', 'stream'], { job: small(knobs.chosen), rank: 0 }).value
  const words = text()
  const [waits, goesOn] = value ?? []
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
            ranks: { label: words.ranks },
            sequences: { label: words.sequences },
            zero: { label: words.zero },
            bucket: {
              label: words.bucket,
              show: (size: number) => bytes(size * mebi),
              ...(zero === 3 && { note: words.bucketNote }),
            },
          }}
        />
      }
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Lanes jobs={jobs} />
        </>
      }
      more={
        <BarsFigure
          title={words.title}
          caption={
            waits && goesOn
              ? words.caption(zero, seconds(waits.step), seconds(goesOn.step), hidden(waits.parts.dp, goesOn.parts.dp))
              : ''
          }
          bars={(value ?? []).map((each, n) => ({ label: words.name(zero, n === 1), parts: timesOf(each) }))}
          show={seconds}
          head={[words.plan, words.step]}
          pending={pending}
        />
      }
      sentence={goesOn && words.sentence(seconds(goesOn.parts.dp), percent(goesOn.parts.dp / goesOn.step))}
      formula={{
        math: formula,
        live: waits && goesOn ? { sum: seconds(waits.step), step: seconds(goesOn.step) } : {},
        letters: words.letters,
      }}
      guess={{ question: words.question, run: fewer, show: n => words.share(short(n)), why: () => words.why, min: 0 }}
      notice={words.notice}
      program={code}
      open={{ plan: planQuery(jobs[1]!, 'h100') }}
      command={onJob(jobs[1]!, 'simulate - --cluster h100')}
      says={goesOn && { field: 'step', value: goesOn.step }}
    />
  )
}

const hidden = (before: number, after: number): string => percent(before > 0 ? Math.max(0, 1 - after / before) : 0)

/** Both steps on one scale of time: where bytes lie under compute they cost nothing. */
function Lanes({ jobs }: { readonly jobs: readonly JobText[] }) {
  const { value, refusal, pending } = useAnswer('program', ['steps', 'steps'], { jobs, device: 'h100' })
  const words = text()
  if (refusal) return <Trouble why={refusal} />
  const names = [words.waits, words.goesOn]
  const goesOn = value?.[1]
  const row = ({ step, compute, network, both, flights }: SteppedJob, n: number) => [
    names[n]!,
    ...[step, compute, network, both].map(seconds),
    flights,
  ]
  return (
    <Figure
      title={words.timeline}
      caption={goesOn ? captionOf(goesOn) : '…'}
      rows={{ head: words.timelineHead, body: (value ?? []).map(row) }}
      pending={pending}
    >
      {(value ?? []).map(({ data, step }, n) => (
        <div key={n}>
          <h3>
            {names[n]}: {seconds(step)}
          </h3>
          <Timeline data={data} />
        </div>
      ))}
    </Figure>
  )
}

const captionOf = ({ flights, network, both }: SteppedJob): string =>
  text().timelineCaption(count(flights), seconds(network), seconds(both), percent(network > 0 ? both / network : 0))
