/** The memory wall: what one device would have to hold to train a model, and how long it would take. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { onJob, planQuery } from '../../base/links.js'
import { bytes, count, fixed, short, thousands } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { Bars, Legend } from '../../parts/bars.js'
import { Figure } from '../../parts/figure.js'
import { kindsOf, partsOf } from '../../parts/kinds.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { Recipe, WallAnswer } from '../../work/memory-lessons.js'

const text = defineText(
  {
    claim:
      'Training keeps far more than the weights: a gradient for each, the optimizer’s state, and what the backward pass will need. For large models that is many devices’ worth before the first token.',
    one: 'What one rank would hold',
    caption: (model: string, all: string, times: string, device: string) =>
      `One rank that trains ${model} alone would hold ${all}, ${times} times what one ${device} has.`,
    fits: (model: string, all: string, device: string) => `${model} takes ${all} and fits on one ${device}.`,
    rank: 'one rank',
    limit: 'memory of the device',
    kind: 'Kind',
    amount: 'Bytes',
    total: 'Copies add up',
    totalCaption: (one: string, many: string) =>
      `Plain data parallelism gives every rank a whole copy: ${one} on one rank, ${many} on 64 together, and no rank holds less.`,
    ranks: (n: number) => `${n} ${n === 1 ? 'rank' : 'ranks'}`,
    states: 'weights, gradients, optimizer',
    model: 'Model',
    recipe: 'Bytes a parameter',
    recipes: {
      '8': '8: everything bf16',
      '12': '12: bf16, moments f32',
      '16': '16: and f32 weights',
      '18': '18: and f32 gradients',
      f32: '16: everything f32',
    },
    sequences: 'Sequences of 2,048 tokens at once',
    device: 'Device',
    sentence: (params: string, each: string, states: string, devices: string, device: string) =>
      `${params} parameters at ${each} bytes are ${states}: ${devices} ${device} would just hold that, and no activation.`,
    letters: 'P parameters; w, g, o: bytes of its weight, its gradient and the optimizer’s state.',
    question: (device: string) =>
      `Suppose one ${device} had the memory. How many years would it need alone for 300 billion tokens?`,
    years: (n: string) => `${n} years`,
    why: 'Memory says how many devices are needed at least; patience says how many more.',
    notice: [
      'The weights are the small part. Of 18 bytes a parameter two are the weight that is multiplied with.',
      'More sequences at once add activations and nothing else: they are the only kind that depends on the batch.',
      'Copies do not help. Sixty-four ranks with plain data parallelism hold sixty-four times as much, and each still lacks the room.',
    ],
  },
  {
    claim:
      '训练时要存的远不止权重：每个权重有一份梯度，优化器有自己的状态，反向传播还要用到前向的中间结果。模型一大，还没读进第一个 token，就已经要占好多张卡。',
    one: '一个 rank 要存多少',
    caption: (model: string, all: string, times: string, device: string) =>
      `只用一个 rank 训练 ${model}，要存 ${all}，是一张 ${device} 显存的 ${times} 倍。`,
    fits: (model: string, all: string, device: string) => `${model} 需要 ${all}，一张 ${device} 放得下。`,
    rank: '一个 rank',
    limit: '单卡显存',
    kind: '种类',
    amount: '字节',
    total: '副本越多，总量越大',
    totalCaption: (one: string, many: string) =>
      `朴素的数据并行给每个 rank 一份完整副本：1 个 rank 是 ${one}，64 个合起来是 ${many}，而每个 rank 一点也没少存。`,
    ranks: (n: number) => `${n} 个 rank`,
    states: '权重、梯度、优化器状态',
    model: '模型',
    recipe: '每个参数的字节数',
    recipes: {
      '8': '8：全用 bf16',
      '12': '12：bf16，动量用 f32',
      '16': '16：再加一份 f32 权重',
      '18': '18：梯度也用 f32',
      f32: '16：全用 f32',
    },
    sequences: '同时训练几条 2,048 token 的序列',
    device: '设备',
    sentence: (params: string, each: string, states: string, devices: string, device: string) =>
      `${params} 个参数，每个 ${each} 字节，共 ${states}：要 ${devices} 张 ${device} 才刚好放下，而且还没算激活值。`,
    letters: 'P：参数个数；w、g、o：每个参数的权重、梯度、优化器状态各占的字节数。',
    question: (device: string) => `假设一张 ${device} 的显存够用，让它独自训练 3000 亿个 token，要多少年？`,
    years: (n: string) => `${n} 年`,
    why: '显存决定至少要几张卡，等得起多久决定还要再多几张。',
    notice: [
      '权重只占一小部分：每个参数 18 字节里，真正拿去相乘的权重只有 2 字节。',
      '同时训练的序列多了，增加的只有激活值：只有它随 batch 大小变化。',
      '复制副本没有用：64 个 rank 做朴素数据并行，总共存了 64 倍，每个 rank 却照样放不下。',
    ],
  },
)

const table = {
  model: oneOf(['gpt2-xl', 'megatron-7.5b', 'llama3-70b', 'gpt3-175b'], 'gpt3-175b'),
  recipe: oneOf(['8', '12', '16', '18', 'f32'] as const satisfies readonly Recipe[], '18'),
  sequences: oneOf([1, 2, 4, 8]),
  device: oneOf(['a100-80', 'h100', 'h200', 'b200'], 'h100'),
}

export default function MemoryWall() {
  const knobs = readKnobs(table)
  const { model, device, recipe } = knobs.chosen
  const { value, refusal, pending } = useAnswer('fast', ['memory', 'wall'], knobs.chosen)
  const words = text()
  const code = useAnswer('fast', ['memory', 'updateLines'], { recipe }).value
  const name = device.toUpperCase()
  const labels = {
    model: { label: words.model },
    recipe: { label: words.recipe, show: (recipe: Recipe) => words.recipes[recipe] },
    sequences: { label: words.sequences },
    device: { label: words.device, show: (device: string) => device.toUpperCase() },
  }
  const years = async () => (await ask('fast', ['memory', 'daysAlone'], knobs.chosen)) / 365.25
  return (
    <Lesson
      name="memory-wall"
      claim={words.claim}
      controls={<Controls knobs={knobs} labels={labels} />}
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <OneRank value={value} pending={pending} model={model} device={name} />
        </>
      }
      more={<Copies value={value} pending={pending} />}
      sentence={
        value &&
        words.sentence(
          thousands(value.parameters),
          fixed(value.states / value.parameters, 1),
          bytes(value.states),
          count(value.devices),
          name,
        )
      }
      formula={{ math: formula, live: liveOf(value), letters: words.letters }}
      guess={{
        question: words.question(name),
        run: years,
        show: n => words.years(short(n)),
        why: () => words.why,
        min: 0,
      }}
      notice={words.notice}
      open={{ ...(value && { plan: planQuery(value.job, device) }) }}
      program={code}
      command={value ? onJob(value.job, 'memory -') : 'lockstep memory -'}
      says={value && { field: 'stages.0.peak.optimizer', value: value.bytes.optimizer }}
    />
  )
}

const formula = tex`M = P\,(w + g + o) = \class{live}{\text{P}}\times(\class{live}{\text{w}}+\class{live}{\text{g}}+\class{live}{\text{o}}) = \class{live}{\text{M}}`

function liveOf(value: WallAnswer | undefined): Readonly<Record<string, string>> {
  if (!value) return {}
  const each = (bytes: number) => String(Math.round((10 * bytes) / value.parameters) / 10)
  return {
    P: thousands(value.parameters),
    w: each(value.bytes.parameters),
    g: each(value.bytes.gradients),
    o: each(value.bytes.optimizer),
    M: bytes(value.states),
  }
}

interface Shown {
  readonly value: WallAnswer | undefined
  readonly pending: boolean
}

function OneRank({ value, pending, model, device }: Shown & { readonly model: string; readonly device: string }) {
  const words = text()
  const bars = value ? [{ label: words.rank, parts: partsOf(value.bytes) }] : []
  const caption =
    value &&
    (value.all > value.capacity
      ? words.caption(model, bytes(value.all), short(value.all / value.capacity), device)
      : words.fits(model, bytes(value.all), device))
  const rows = { head: [words.kind, words.amount], body: value ? kindsOf(value.bytes) : [] }
  return (
    <Figure title={words.one} caption={caption ?? '…'} rows={rows} pending={pending}>
      {value && (
        <>
          <Bars
            bars={bars}
            show={bytes}
            limit={{ label: words.limit, value: value.capacity }}
            label={caption ?? words.one}
          />
          <Legend bars={bars} />
        </>
      )}
    </Figure>
  )
}

function Copies({ value, pending }: Shown) {
  const words = text()
  const total = value?.total ?? []
  const bars = total.map(({ ranks, bytes }) => ({
    label: words.ranks(ranks),
    parts: [{ name: words.states, value: bytes, kind: 'optimizer' }],
  }))
  const caption = value && words.totalCaption(bytes(total[0]!.bytes), bytes(total[2]!.bytes))
  const rows = {
    head: [words.rank, words.states],
    body: total.map(each => [words.ranks(each.ranks), bytes(each.bytes)]),
  }
  return (
    <Figure title={words.total} caption={caption ?? '…'} rows={rows} pending={pending}>
      {value && <Bars bars={bars} show={bytes} label={caption ?? words.total} />}
    </Figure>
  )
}
