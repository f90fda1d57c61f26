/** Exercise: which strategy sends most. */
import { defineText } from '../../../base/language.js'
import { onJob } from '../../../base/links.js'
import { bytes, short } from '../../../base/numbers.js'
import { BarsFigure } from '../../../parts/bars-figure.js'
import { Exercise, type Outcome } from '../../../parts/exercise.js'
import { useAnswer } from '../../../work/answer.js'
import { ask } from '../../../work/ask.js'
import type { Sent } from '../../../work/exercises/communication.js'

const text = defineText(
  {
    task: 'One small Llama (4 layers, 256 wide, 16 sequences of 128 tokens) on four ranks, in four ways: dp 4, tp 4, pp 4 with four microbatches, and dp 4 with ZeRO-3. Put them in order by the bytes that all ranks together send in a step, most first. Guess; then the compiled programs are counted.',
    label: 'Most bytes first, one a line',
    unknown: (line: number, said: string) => `Line ${line}: “${said}” is none of dp, tp, pp and zero 3.`,
    uncounted: (way: string) => `${way} should stand there once.`,
    reversed: (line: number, less: string, more: string) => `Line ${line}: ${more} sends more than ${less}.`,
    title: 'Bytes sent in a step',
    caption: (most: string, times: string, least: string) => `${most} sends ${times} times what ${least} sends.`,
    way: 'Plan',
    all: 'All ranks',
    hints: [
      'Two things can travel: parameters and gradients, which depend on the model, or activations, which depend on the tokens in the batch. Which is it, for each of the four?',
      'A pipeline hands one activation from stage to stage, forward and backward: three borders in all. Tensor parallelism sums activations four times in every layer.',
      'An all-reduce is a reduce-scatter and an all-gather. ZeRO-3 gathers the parameters once for the forward and once for the backward, and reduce-scatters gradients: three halves of data parallelism.',
    ],
    proves:
      'The order is of this model and this batch: what dp and ZeRO send stays the same however many tokens there are, what tp and pp send grows with them. Take twice the sequences, and tp doubles; take a wider model, and dp grows with the square of the width.',
  },
  {
    task: '一个小 Llama（4 层，宽 256，16 条 128 token 的序列）放在四个 rank 上，有四种办法：dp 4、tp 4、pp 4（四个微批次）、dp 4 加 ZeRO-3。按一步里所有 rank 一共发出的字节数排序，多的在前。先猜，再由编译出的程序来数。',
    label: '字节多的在前，每行一个',
    unknown: (line: number, said: string) => `第 ${line} 行：“${said}”不是 dp、tp、pp、zero 3 中的任何一个。`,
    uncounted: (way: string) => `${way} 应当正好出现一次。`,
    reversed: (line: number, less: string, more: string) => `第 ${line} 行：${more} 发的比 ${less} 多。`,
    title: '一步发出的字节',
    caption: (most: string, times: string, least: string) => `${most} 发出的是 ${least} 的 ${times} 倍。`,
    way: '方案',
    all: '所有 rank',
    hints: [
      '在路上的无非两种东西：参数和梯度，取决于模型；激活值，取决于 batch 里的 token。四种办法各是哪一种？',
      '流水线在相邻两级之间传一份激活值，前向一次、反向一次，一共三个边界。张量并行每层要对激活值求和四次。',
      'all-reduce 等于 reduce-scatter 加 all-gather。ZeRO-3 前向收一次参数，反向再收一次，梯度做 reduce-scatter：是数据并行的一倍半。',
    ],
    proves:
      '这个顺序只属于这个模型和这个 batch：dp 和 ZeRO 发的与 token 数无关，tp 和 pp 发的随 token 增长。序列加倍，tp 就加倍；模型加宽，dp 按宽度的平方增长。',
  },
)

export default function Communication() {
  const words = text()
  const { value, refusal } = useAnswer('fast', ['exercises', 'communication'], {})
  const check = async (written: string): Promise<Outcome> => {
    const judged = await ask('fast', ['exercises', 'judgeRanking'], { text: written })
    const { unknown, uncounted, reversed, sent } = judged
    return {
      lacks: [
        ...unknown.map(({ line, said }) => words.unknown(line, said)),
        ...uncounted.map(words.uncounted),
        ...(reversed ? [words.reversed(reversed.line, reversed.less, reversed.more)] : []),
      ],
      found: sent && <Counted sent={sent} />,
    }
  }
  return (
    <Exercise
      name="exercise/communication"
      task={words.task}
      label={words.label}
      texts={value}
      refusal={refusal}
      check={check}
      hints={words.hints}
      proves={words.proves}
      command={value ? onJob(value.job, 'simulate - --cluster h100') : 'lockstep simulate -'}
      says={value && { field: 'load.traffic.0.bytes', value: value.bytes }}
    />
  )
}

function Counted({ sent }: { readonly sent: readonly Sent[] }) {
  const words = text()
  const [most, least] = [sent[0]!, sent.at(-1)!]
  const bars = sent.map(({ way, parts }) => ({
    label: way,
    parts: parts.map(({ what, axis, bytes }) => ({ name: what, value: bytes, kind: axis })),
  }))
  return (
    <BarsFigure
      title={words.title}
      caption={words.caption(most.way, short(most.bytes / least.bytes), least.way)}
      bars={bars}
      show={bytes}
      head={[words.way, words.all]}
      pending={false}
    />
  )
}
