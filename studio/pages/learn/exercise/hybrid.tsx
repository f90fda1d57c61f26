/** Exercise: data and tensor parallelism together. */
import { defineText } from '../../../base/language.js'
import { onJob } from '../../../base/links.js'
import { Exercise, type Outcome } from '../../../parts/exercise.js'
import { useAnswer } from '../../../work/answer.js'
import { ask } from '../../../work/ask.js'
import { EqualToOne } from './equal.js'

const text = defineText(
  {
    task: 'Build a mesh of eight ranks for an MLP, data parallel and tensor parallel at once. Then say which collective, over which axis, a layer has in its forward and in its backward, which one sums the gradients of the step, and which ranks are in the two groups of rank 5.',
    label: 'Plan and answers: collectives as “all-gather dp”, ranks as “0 1 2”',
    mesh: (dp: number, tp: number) =>
      `dp ${dp} and tp ${tp} make ${dp * tp} ranks; there are 8, and both axes should have more than one.`,
    empty: (field: string) => `${field}: nothing is written there.`,
    wrong: (field: string, said: string) => `${field}: “${said}” is not what the compiled program has.`,
    hints: [
      'dp x tp = 8, so dp 2 with tp 4, or dp 4 with tp 2. Either will do; the groups differ.',
      'tp cuts matrices inside a layer: what its ranks compute are addends of one activation. dp cuts the batch: activations never meet, gradients do.',
      'In a layer, forward and backward alike: all-reduce tp. A data-parallel group says nothing until there are gradients.',
      'Ranks are counted along tp first: with tp 4, ranks 0 to 3 are one tp group, and 4 to 7 the other. A dp group takes one rank of each.',
    ],
    proves:
      'Each axis has its own moment: tp speaks in every layer, twice, and has to be waited for; dp speaks once a step and can be hidden. That is why tp gets the fast links. Every rank belongs to one group of each axis, and the two have only that rank in common.',
  },
  {
    task: '为一个 MLP 搭一个八个 rank 的网格，同时用数据并行和张量并行。然后写出：一层的前向和反向里各有什么集合通信、在哪个轴上；一步的梯度由哪个集合通信求和；以及 rank 5 所在的两个组各有哪些 rank。',
    label: '方案与答案：集合通信写作“all-gather dp”，rank 写作“0 1 2”',
    mesh: (dp: number, tp: number) => `dp ${dp}、tp ${tp} 共 ${dp * tp} 个 rank；一共有 8 个，而且两个轴都要大于 1。`,
    empty: (field: string) => `${field}：还没有写。`,
    wrong: (field: string, said: string) => `${field}：编译出的程序里不是“${said}”。`,
    hints: [
      'dp x tp = 8：dp 2 配 tp 4，或 dp 4 配 tp 2。都可以，只是组不同。',
      'tp 切的是层内的矩阵：各 rank 算出的是同一份激活值的加数。dp 切的是 batch：激活值互不相干，梯度才要合在一起。',
      '层内的前向和反向都是 all-reduce tp。数据并行的组在有梯度之前不通信。',
      'rank 先沿 tp 编号：tp 4 时，rank 0 到 3 是一个 tp 组，4 到 7 是另一个。dp 组从每个 tp 组里各取一个。',
    ],
    proves:
      '两个轴各有各的时机：tp 每层通信两次，而且必须等；dp 一步一次，可以藏起来。所以快链路要留给 tp。每个 rank 在每个轴上各属于一个组，这两个组只有它自己是共同的。',
  },
)

export default function Hybrid() {
  const words = text()
  const { value, refusal } = useAnswer('fast', ['exercises', 'hybrid'], {})
  const check = async (written: string): Promise<Outcome> => {
    const judged = await ask('fast', ['exercises', 'judgeHybrid'], { text: written })
    const { problems, broken, mesh, wrong, beside } = judged
    const lacks = [
      ...(mesh ? [words.mesh(mesh.dp, mesh.tp)] : []),
      ...wrong.map(({ field, said }) => (said ? words.wrong(field, said) : words.empty(field))),
    ]
    return { problems, broken, lacks, found: beside && <EqualToOne beside={beside} ranks={8} /> }
  }
  return (
    <Exercise
      name="exercise/hybrid"
      task={words.task}
      label={words.label}
      texts={value}
      refusal={refusal}
      check={check}
      hints={words.hints}
      proves={words.proves}
      command={value ? onJob(value.job, 'verify -') : 'lockstep verify -'}
      says={value && { field: 'numbers.steps.0.loss', value: value.loss }}
    />
  )
}
