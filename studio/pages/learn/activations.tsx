/** Activations: how they grow with tokens, and what it costs to compute them again instead of keeping them. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { onJob, planQuery } from '../../base/links.js'
import { bytes, percent, seconds } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import type { Part } from '../../parts/bars.js'
import { BarsFigure } from '../../parts/bars-figure.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { Compared } from '../../work/compared.js'
import type { JobText } from '../../work/jobs.js'
import { Prices } from './prices.js'
import { timesOf } from './times.js'

const text = defineText(
  {
    claim:
      'The backward pass needs what the forward pass computed. Keeping it costs memory that grows with every token; throwing it away and computing it again costs time.',
    title: 'Activations of a rank, by what is kept',
    kept: 'kept by the program',
    scores: 'scores that fused attention never writes',
    linear: 'formula, without scores',
    formulaLabel: 'formula of the papers',
    policies: {
      none: 'keep everything',
      cheap: 'cheap ops again',
      selective: 'attention again',
      full: 'layer by layer again',
    },
    policy: 'Policy',
    caption: (all: string, policy: string, chosen: string, slower: string) =>
      `Everything kept: ${all}. With “${policy}” ${chosen} stay, and the step changes by ${slower}.`,
    together: 'Together',
    seq: 'Tokens in a sequence',
    sequences: 'Sequences at once',
    recompute: 'What is computed again',
    sentence: (linear: string, scores: string) =>
      `The papers’ formula asks for ${linear} without attention scores and ${scores} for the scores; fused attention keeps none of them.`,
    letters:
      's tokens, b sequences, h width, a heads, L layers. The 34 counts a GPT layer of the papers; ours is a Llama’s, so it is near, not equal.',
    time: 'What a step takes',
    step: 'Step',
    timeCaption: (fast: string, slow: string) =>
      `A step on H100s takes ${fast} with everything kept, ${slow} with every layer computed again.`,
    question: 'Twice as many tokens in a sequence: how many times as large do the kept activations get?',
    why: 'Twice: with fused attention only the linear part is left. With scores written out it would near four for long sequences.',
    notice: [
      'A full recomputation keeps one tensor a layer and pays about a third of the compute once more: the forward pass a second time.',
      'Computing only the cheap operations again, norms and activation functions, gives back a good part of the memory for almost nothing.',
      'Activations grow with the batch and the sequence; weights and states do not. That is why a plan that fits at 2k tokens fails at 32k.',
    ],
  },
  {
    claim: '反向传播要用到前向算出的中间结果。存下来，占的显存随 token 数增长；扔掉再算一遍，花的是时间。',
    title: '一个 rank 的激活值，按保留的多少',
    kept: '程序实际保留',
    scores: '融合注意力不写出的分数矩阵',
    linear: '公式（不含分数矩阵）',
    formulaLabel: '论文公式',
    policies: { none: '全部保留', cheap: '重算便宜的算子', selective: '重算注意力', full: '逐层全部重算' },
    policy: '策略',
    caption: (all: string, policy: string, chosen: string, slower: string) =>
      `全部保留是 ${all}；“${policy}”只留 ${chosen}，一步的时间变化 ${slower}。`,
    together: '合计',
    seq: '序列长度（token）',
    sequences: '同时训练的序列数',
    recompute: '重计算什么',
    sentence: (linear: string, scores: string) =>
      `按论文公式，不含注意力分数要 ${linear}，分数矩阵另要 ${scores}；融合注意力一份分数也不存。`,
    letters:
      's：token 数；b：序列数；h：宽度；a：头数；L：层数。34 数的是论文里的 GPT 层，这里是 Llama 层，所以接近而不相等。',
    time: '一步要多久',
    step: '一步',
    timeCaption: (fast: string, slow: string) => `在 H100 上，全部保留一步 ${fast}，逐层重算一步 ${slow}。`,
    question: '序列长度加倍，保留的激活值变为几倍？',
    why: '两倍：用融合注意力时只剩线性的部分。如果写出分数矩阵，序列很长时会接近四倍。',
    notice: [
      '逐层重算时每层只留一个张量，代价是前向再做一遍，计算量大约多三分之一。',
      '只重算归一化、激活函数这类便宜的算子，几乎不花时间就能拿回不少显存。',
      '激活值随 batch 和序列增长，权重和优化器状态不会。所以 2k token 放得下的方案，到 32k 就放不下了。',
    ],
  },
)

const policies = ['none', 'cheap', 'selective', 'full'] as const
type Policy = (typeof policies)[number]

const table = {
  seq: oneOf([1024, 2048, 4096, 8192, 16384], 4096),
  sequences: oneOf([1, 2, 4]),
  recompute: oneOf(policies, 'full'),
}

const formula = tex`\displaystyle s\,b\,h\,L\Bigl(34 + 5\,\frac{a\,s}{h}\Bigr) = \class{live}{\text{linear}} + \class{live}{\text{scores}}`

/** Of llama2-7b. */
const sizes = { h: 4096, a: 32, layers: 32 }

interface Chosen {
  readonly seq: number
  readonly sequences: number
}

function paperOf({ seq, sequences }: Chosen): { readonly linear: number; readonly scores: number } {
  const each = seq * sequences * sizes.h * sizes.layers
  return { linear: 34 * each, scores: (5 * sizes.a * seq * each) / sizes.h }
}

const jobOf = ({ seq, sequences }: Chosen, recompute: Policy): JobText => ({
  model: 'llama2-7b',
  training: { seq, globalBatch: 8 * sequences },
  plan: { dp: 8, zero: 3, microbatches: 1, precision: 'bf16', recompute },
})

const small = (recompute: Policy): JobText => ({
  model: { family: 'mlp', layers: 1, embed: 8, ffn: 16 },
  training: { seq: 4, globalBatch: 1 },
  plan: { recompute },
})

export default function Activations() {
  const knobs = readKnobs(table)
  const { seq, sequences, recompute } = knobs.chosen
  const jobs = policies.map(policy => jobOf({ seq, sequences }, policy))
  const { value, refusal, pending } = useAnswer('fast', ['compared', 'compared'], { jobs, device: 'h100' })
  const code = useAnswer('fast', ['excerpts', 'excerpt'], { job: small(recompute), segments: ['layers.F', 'layers.B'] })
  const words = text()
  const { linear, scores } = paperOf(knobs.chosen)
  const job = jobs[policies.indexOf(recompute)]!
  const chosen = value?.[policies.indexOf(recompute)]
  const doubles = async () => {
    const both = [seq, 2 * seq].map(seq => jobOf({ seq, sequences }, 'none'))
    const [short, long] = await ask('fast', ['compared', 'compared'], { jobs: both, device: 'h100' })
    return long!.bytes.activations / short!.bytes.activations
  }
  return (
    <Lesson
      name="activations"
      claim={words.claim}
      controls={
        <Controls
          knobs={knobs}
          labels={{
            seq: { label: words.seq },
            sequences: { label: words.sequences },
            recompute: { label: words.recompute, show: (policy: Policy) => words.policies[policy] },
          }}
        />
      }
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Kept value={value} pending={pending} policy={recompute} paper={paperOf(knobs.chosen)} />
        </>
      }
      more={
        <>
          <Time value={value} pending={pending} />
          <Prices job={jobs[0]!} device="h100" />
        </>
      }
      sentence={words.sentence(bytes(linear), bytes(scores))}
      formula={{ math: formula, live: { linear: bytes(linear), scores: bytes(scores) }, letters: words.letters }}
      guess={{ question: words.question, run: doubles, why: () => words.why, min: 0 }}
      notice={words.notice}
      program={code.value?.lines}
      python={code.value?.python}
      open={{ plan: planQuery(job, 'h100') }}
      command={onJob(job, 'memory -')}
      says={chosen && { field: 'stages.0.peak.activations', value: chosen.bytes.activations }}
    />
  )
}

interface Shown {
  readonly value: readonly Compared[] | undefined
  readonly pending: boolean
}

interface KeptProps extends Shown {
  readonly policy: Policy
  readonly paper: ReturnType<typeof paperOf>
}

function Kept({ value = [], pending, policy, paper }: KeptProps) {
  const words = text()
  const programs = value.map(({ bytes }, n) => ({
    label: words.policies[policies[n]!],
    parts: [{ name: words.kept, value: bytes.activations, kind: 'activations' }] as Part[],
  }))
  const formula = {
    label: words.formulaLabel,
    parts: [
      { name: words.linear, value: paper.linear, kind: 'other' },
      { name: words.scores, value: paper.scores, kind: 'gradients' },
    ],
  }
  const [none, chosen] = [value[0], value[policies.indexOf(policy)]]
  const slower = none && chosen && percent(chosen.step / none.step - 1)
  return (
    <BarsFigure
      title={words.title}
      caption={
        none && chosen && slower !== undefined
          ? words.caption(
              bytes(none.bytes.activations),
              words.policies[policy],
              bytes(chosen.bytes.activations),
              slower,
            )
          : ''
      }
      bars={value.length > 0 ? [...programs, formula] : []}
      show={bytes}
      head={[words.policy, words.together]}
      pending={pending}
    />
  )
}

function Time({ value = [], pending }: Shown) {
  const words = text()
  return (
    <BarsFigure
      title={words.time}
      caption={value.length > 0 ? words.timeCaption(seconds(value[0]!.step), seconds(value[3]!.step)) : ''}
      bars={value.map((each, n) => ({ label: words.policies[policies[n]!], parts: timesOf(each) }))}
      show={seconds}
      head={[words.policy, words.step]}
      pending={pending}
    />
  )
}
