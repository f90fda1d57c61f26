/** The roofline: what a kernel does with each byte it fetches. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { onJob, planQuery } from '../../base/links.js'
import { narrow } from '../../base/narrow.js'
import { percent, seconds, short, thousands } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { Figure } from '../../parts/figure.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { RooflineAnswer } from '../../work/measures.js'
import { recomputing, runOf, Utilisation } from './utilisation.js'

/** Of the words that kernels are called by; ops keep the name that programs print. */
const chinese: Readonly<Record<string, string>> = {
  product: '矩阵乘',
  forward: '前向',
  backward: '反向',
  'once a step': '每步一次',
}

const text = defineText(
  {
    claim:
      'A device can multiply far more numbers than it can fetch. A kernel that does much with each byte is bound by arithmetic, one that does little by memory; the ridge between them is what the device computes divided by what it fetches.',
    title: 'Every kernel of a layer against the roof',
    knobs: { model: 'Model', device: 'Device', sequences: 'Sequences at once', tp: 'Tensor parallel ranks' },
    caption: (n: number, under: number, share: string) =>
      `Of the ${n} kinds of kernels that take longest, ${under} do too little with a byte and are bound by memory; they take ${share} of the time.`,
    head: ['Kernel', 'FLOP a byte', 'FLOP/s reached', 'Time'],
    kernel: (what: string) => what,
    letters: 'I: FLOP a byte of a kernel; π: what the device computes, β: what it fetches a second.',
    question: 'At how many FLOP a byte does this device have as much to compute as to fetch?',
    why: 'It is the ratio of two figures of the data sheet, and grows with each generation: memory gets faster more slowly.',
    notice: [
      'Products sit far to the right as long as their matrices are large; norms, additions and the optimizer multiply nothing worth a dot: they stand in the list alone, and wait for memory.',
      'More tensor parallel ranks make every product thinner: the dots move left, and the same FLOPs take longer.',
      'No dot reaches the roof: tiles do not fit evenly, and the first and last waves of them leave units idle.',
    ],
  },
  {
    claim:
      '设备能乘的数远多于能取的数。每个字节做很多运算的 kernel 受算力限制，做得少的受显存限制；分界处的“脊”等于算力除以带宽。',
    title: '一层的每个 kernel 与屋顶线',
    knobs: { model: '模型', device: '设备', sequences: '同时的序列数', tp: '张量并行 rank 数' },
    caption: (n: number, under: number, share: string) =>
      `耗时最多的 ${n} 类 kernel 里，${under} 类每字节运算太少，受显存限制；它们共占 ${share} 的时间。`,
    head: ['kernel', '每字节 FLOP', '达到的 FLOP/s', '时间'],
    kernel: (what: string) =>
      what
        .split(', ')
        .map(word => chinese[word] ?? word)
        .join('，'),
    letters: 'I：一个 kernel 每字节的 FLOP；π：设备每秒的运算；β：每秒能取的字节。',
    question: '每字节多少 FLOP 时，这个设备的计算量正好等于取数量？',
    why: '它是数据手册上两个数的比值，每一代都在变大：显存变快得更慢。',
    notice: [
      '矩阵够大时，矩阵乘远在右边；归一化、加法和优化器几乎没有乘法，图上没有它们的点，只在列表里：它们都在等显存。',
      '张量并行的 rank 越多，矩阵越瘦：点向左移，同样的 FLOP 用时更长。',
      '没有点碰到屋顶：分块不能整除，首尾几批分块总有单元闲着。',
    ],
  },
)

const table = {
  model: oneOf(['gpt2-xl', 'llama3-8b', 'llama3-70b'], 'llama3-8b'),
  device: oneOf(['v100', 'a100-80', 'h100', 'b200', 'tpu-v5p'], 'h100'),
  sequences: oneOf([1, 2, 4], 1),
  tp: oneOf([1, 2, 4, 8], 1),
}

export default function Roofline() {
  const knobs = readKnobs(table)
  const { model, device, sequences, tp } = knobs.chosen
  const job = {
    model,
    training: { seq: 1024, globalBatch: sequences },
    plan: { tp, precision: 'bf16', ...(tp > 1 && { sequenceParallel: true }) },
  }
  const { value, refusal, pending } = useAnswer('fast', ['measures', 'roofline'], { job, device })
  const code = useAnswer('fast', ['excerpts', 'excerpt'], { job, segments: ['layers.F'] }).value
  const recompute = readKnobs(recomputing)
  const large = runOf(knobs.chosen, recompute.chosen.recompute)
  const used = useAnswer('long', ['measures', 'utilisation'], { job: large, device })
  const words = text()
  const caption = value ? captionOf(value) : '…'
  const labels = {
    model: { label: words.knobs.model },
    device: { label: words.knobs.device },
    sequences: { label: words.knobs.sequences },
    tp: { label: words.knobs.tp },
  }
  return (
    <Lesson
      name="roofline"
      claim={words.claim}
      controls={<Controls knobs={knobs} labels={labels} />}
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Figure title={words.title} caption={caption} rows={rowsOf(value)} pending={pending}>
            {value && <Roof value={value} label={caption} />}
            <ol class="roof-list">
              {value?.kernels.map(({ what, seconds: time }) => (
                <li key={what}>{`${words.kernel(what)} · ${seconds(time)}`}</li>
              ))}
            </ol>
          </Figure>
        </>
      }
      sentence={value && caption}
      formula={{
        math: {
          en: tex`\min(\pi,\; I \beta), \qquad I_{\text{ridge}} = \frac{\pi}{\beta} = \class{live}{\text{ridge}}`,
          zh: tex`\min(\pi,\; I \beta), \qquad I_{\text{拐点}} = \frac{\pi}{\beta} = \class{live}{\text{ridge}}`,
        },
        live: value ? { ridge: short(value.ridge) } : {},
        letters: words.letters,
      }}
      guess={{
        question: words.question,
        run: async () => (await ask('fast', ['measures', 'roofline'], { job, device })).ridge,
        show: short,
        why: () => words.why,
        min: 0,
      }}
      notice={words.notice}
      open={{ plan: planQuery(job, device) }}
      program={code?.lines}
      more={<Utilisation answer={used} recompute={recompute} />}
      command={onJob(job, `simulate - --cluster ${device}`)}
      says={value && { field: 'load.ridge', value: value.ridge }}
      also={[
        {
          line: onJob(large, `simulate - --cluster ${device}`),
          says: used.value && { field: 'hfu', value: used.value.hfu },
        },
      ]}
    />
  )
}

const intensityOf = ({ flops, bytes }: RooflineAnswer['kernels'][number]) => flops / bytes

function captionOf({ kernels, ridge }: RooflineAnswer): string {
  const all = kernels.reduce((sum, { seconds }) => sum + seconds, 0)
  const under = kernels.filter(kernel => intensityOf(kernel) < ridge)
  const share = under.reduce((sum, { seconds }) => sum + seconds, 0) / all
  return text().caption(kernels.length, under.length, percent(share))
}

const rowsOf = (value: RooflineAnswer | undefined) => ({
  head: text().head,
  body: (value?.kernels ?? []).map(kernel => [
    text().kernel(kernel.what),
    short(intensityOf(kernel)),
    thousands(kernel.flops / kernel.seconds),
    seconds(kernel.seconds),
  ]),
})

/** What only moves bytes has no place under the roof: it stands in the list alone. */
const placed = ({ kernels }: RooflineAnswer) =>
  kernels.map((kernel, n) => ({ kernel, n })).filter(({ kernel }) => kernel.flops > 0)

const wide = { width: 720, height: 300, margin: 46 }
const small = { width: 360, height: 300, margin: 12 }

/** Both axes by powers of ten; a dot is as large as the time it takes. */
function Roof({ value, label }: { readonly value: RooflineAnswer; readonly label: string }) {
  const { width, height, margin } = narrow.value ? small : wide
  const { kernels, ridge, peak, bandwidth } = value
  const [left, right] = [-1, 4.2]
  const [bottom, top] = [Math.log10(peak) - 4.2, Math.log10(peak) + 0.3]
  const x = (intensity: number) =>
    margin + ((Math.log10(Math.max(intensity, 0.1)) - left) / (right - left)) * (width - margin - 10)
  const y = (rate: number) =>
    height - 30 - ((Math.log10(Math.max(rate, 10 ** bottom)) - bottom) / (top - bottom)) * (height - 45)
  const longest = kernels[0]?.seconds ?? 1
  const points = `${x(0.1)},${y(0.1 * bandwidth)} ${x(ridge)},${y(peak)} ${x(10 ** right)},${y(peak)}`
  return (
    <svg class="roof" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      <polyline class="roof-line" points={points} />
      <line class="roof-ridge" x1={x(ridge)} x2={x(ridge)} y1={y(peak)} y2={height - 30} />
      {[1, 10, 100, 1000].map(tick => (
        <text key={tick} x={x(tick)} y={height - 12} text-anchor="middle">
          {tick}
        </text>
      ))}
      <text x={x(ridge) + 4} y={height - 36}>{`${short(ridge)} FLOP/B`}</text>
      <text x={x(ridge) + 4} y={y(peak) - 6}>{`${short(peak / 1e12)} TFLOP/s`}</text>
      {placed(value).map(({ kernel, n }) => (
        <g key={kernel.what}>
          <circle
            cx={x(intensityOf(kernel))}
            cy={y(kernel.flops / kernel.seconds)}
            r={7 + 8 * Math.sqrt(kernel.seconds / longest)}
          >
            <title>{`${text().kernel(kernel.what)}: ${seconds(kernel.seconds)}`}</title>
          </circle>
          <text
            class="roof-number"
            x={x(intensityOf(kernel))}
            y={y(kernel.flops / kernel.seconds) + 4}
            text-anchor="middle"
          >
            {n + 1}
          </text>
        </g>
      ))}
    </svg>
  )
}
