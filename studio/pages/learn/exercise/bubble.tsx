/** Exercise: less bubble than 1F1B. */
import { defineText } from '../../../base/language.js'
import { percent } from '../../../base/numbers.js'
import { RowsExercise } from './rows.js'

const text = defineText(
  {
    task: 'This is 1F1B for four ranks and eight microbatches. A forward takes 1, a backward 2. Make the step shorter by hand: a backward 2B1 may be written as its two halves, 2I1 (gradient of the input) and 2W1 (gradient of the weights), each of which takes 1.',
    lacks: (yours: number, before: number) => `Your step takes ${yours}; 1F1B takes ${before}, and it must be shorter.`,
    score: (yours: number, before: number, best: number, share: string) =>
      `1F1B ${before}, yours ${yours}, ZB-H1 ${best}: ${share} of the way.`,
    hints: [
      'Only I is waited for by the stage in front. W can come at any time after its I, and nobody waits for it.',
      'Begin with the last row: write every 3Bn as 3In,3Wn. That alone is valid, and the stages in front get their gradients one unit earlier.',
      'Do the same in all rows, then look at the figure: where a rank idles, move a W there from earlier in its row.',
      'Weights of the last microbatches can wait until the very end, where ranks 1 to 3 have nothing else to do: 3W4,3W5,3W6,3W7.',
    ],
    proves: (before: number, best: number) =>
      `The work is the same, and so are the gradients: what was cut is waiting. Zero-bubble schedules come from this one observation; ZB-H1 gets from ${before} to ${best}. Look at what yours holds: a W that is put off keeps its activation.`,
  },
  {
    task: '这是四个 rank、八个微批次的 1F1B。一次前向用时 1，一次反向用时 2。请动手把一步缩短：反向 2B1 可以拆成两半来写，2I1（输入的梯度）和 2W1（权重的梯度），各用时 1。',
    lacks: (yours: number, before: number) => `你的一步用时 ${yours}；1F1B 用时 ${before}，要比它短才行。`,
    score: (yours: number, before: number, best: number, share: string) =>
      `1F1B 用时 ${before}，你用时 ${yours}，ZB-H1 用时 ${best}：走完了 ${share}。`,
    hints: [
      '前一级等的只有 I。W 在它的 I 之后什么时候做都行，没有人等它。',
      '从最后一行开始：把每个 3Bn 写成 3In,3Wn。仅此就是合法的，前面各级能早一个单位拿到梯度。',
      '每一行都这样改，再看图：哪里有空闲，就把这一行里更早的 W 挪过去。',
      '最后几个微批次的 W 可以留到最末尾，那时 rank 1 到 3 反正没事做：3W4,3W5,3W6,3W7。',
    ],
    proves: (before: number, best: number) =>
      `活没有变少，梯度也一样，省掉的只是等待。零气泡调度就来自这一点；ZB-H1 从 ${before} 降到 ${best}。再看看各 rank 保留了多少：推迟的 W 会占着它的激活值。`,
  },
)

export default function Bubble() {
  const words = text()
  return (
    <RowsExercise
      name="exercise/bubble"
      question="bubble"
      task={words.task}
      hints={words.hints}
      lacks={(yours, { before }) => (yours < before ? undefined : words.lacks(yours, before))}
      score={(yours, { before, best }) =>
        words.score(yours, before, best, percent((before - yours) / (before - best), 0))
      }
      proves={({ before, best }) => words.proves(before, best)}
      beside="zb-h1"
    />
  )
}
