/** Exercise: the backward of a pipeline. */
import { defineText } from '../../../base/language.js'
import { RowsExercise } from './rows.js'

const text = defineText(
  {
    task: 'Four ranks, each with one stage of a model, and four microbatches. The forwards are there: 2F1 is stage 2, forward, microbatch 1. Add the backwards (2B1) to every row, in an order in which nobody waits for ever.',
    hints: [
      'Each of the 16 forwards needs its backward on the same rank: row 0 ends up with 0B0, 0B1, 0B2 and 0B3.',
      'A backward needs the gradient from the stage behind it: 3B0 comes first, then 2B0, 1B0, 0B0. The last stage needs nothing but its own forward.',
      'All backwards behind all forwards is valid: that is GPipe. Then every rank holds four activations.',
      'To hold fewer, begin a backward as soon as there is one: the last rank can take turns from the start, 3F0,3B0,3F1,3B1 …',
    ],
    proves: (gpipe: number, own: number) =>
      `Every order in which nobody deadlocks gives the gradients of one rank: order changes time and memory, never the result. GPipe takes ${gpipe} and 1F1B ${own}: equally long, with 4 4 4 4 activations held against 4 3 2 1. Yours is in the figure.`,
  },
  {
    task: '四个 rank，每个负责模型的一级；四个微批次。前向已经写好：2F1 表示第 2 级、前向、微批次 1。请给每一行补上反向（2B1），顺序要保证没有人永远等下去。',
    hints: [
      '16 个前向各要一个反向，而且在同一个 rank 上：第 0 行最后要有 0B0、0B1、0B2、0B3。',
      '反向要等后一级传来的梯度：先 3B0，再 2B0、1B0、0B0。最后一级只等自己的前向。',
      '所有反向都排在所有前向之后也行，这就是 GPipe；这时每个 rank 要保留四份激活值。',
      '想少保留一些，就一有反向就做：最后一个 rank 从一开始就可以交替，3F0,3B0,3F1,3B1……',
    ],
    proves: (gpipe: number, own: number) =>
      `只要没有死锁，任何顺序得到的梯度都与单个 rank 相同：顺序影响时间和显存，不影响结果。GPipe 用时 ${gpipe}，1F1B 用时 ${own}，一样长；保留的激活值却是 4 4 4 4 与 4 3 2 1。你的结果见图。`,
  },
)

export default function PipelineBackward() {
  const words = text()
  return (
    <RowsExercise
      name="exercise/pp-backward"
      question="pipelineBackward"
      task={words.task}
      hints={words.hints}
      proves={({ before, best }) => words.proves(before, best)}
      beside="1f1b"
    />
  )
}
