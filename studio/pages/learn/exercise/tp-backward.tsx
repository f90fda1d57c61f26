/** Exercise: the all-reduce of a tensor-parallel backward. */
import { defineText } from '../../../base/language.js'
import { onJob } from '../../../base/links.js'
import { Exercise, type Outcome } from '../../../parts/exercise.js'
import { Listing } from '../../../parts/lesson.js'
import { useAnswer } from '../../../work/answer.js'
import { ask } from '../../../work/ask.js'
import { EqualToOne } from './equal.js'

const text = defineText(
  {
    task: 'This is the backward of one layer of an MLP whose matrices are cut over two ranks: up by columns, down by rows. Two instructions have been taken out, so %d.x’1 is read and nobody writes it. Type them where they belong.',
    label: 'Instructions of layers.B, one a line',
    buffers: 'The buffers, as declared',
    buffersWhat: 'ffn:8/tp: this rank holds 8 of 16 columns; sum:tp: an addend, the value is the sum over tp.',
    hints: [
      'Look at how %d.x is declared: sum:tp. Each rank has computed its columns’ contribution, and the layer before needs the sum.',
      'Summing over ranks so that each has the result is an all-reduce. The forward writes its own as: %down~1’1 = all-reduce %down~1 over=tp combine=sum (with a straight tick).',
      'A collective only starts there. Before anybody reads its result, there must be a line: wait, and the name of the result.',
      'The start may come as soon as %d.x is there, the wait as late as just before the add. What stands between them is computed while bytes travel.',
    ],
    proves:
      'In the forward the sum stands at the end of the layer, in the backward at its beginning: one all-reduce each. Compare where you put the wait with the solution: the gradient of up needs no sum, so it can be computed meanwhile.',
  },
  {
    task: '这是 MLP 一层的反向，矩阵切给两个 rank：up 按列，down 按行。其中两条指令被拿掉了，于是 %d.x’1 有人读、没人写。把它们写回该在的位置。',
    label: 'layers.B 的指令，每行一条',
    buffers: '缓冲区的声明',
    buffersWhat: 'ffn:8/tp 表示本 rank 存 16 列中的 8 列；sum:tp 表示这只是一个加数，真正的值是 tp 上的和。',
    hints: [
      '看 %d.x 的声明：sum:tp。每个 rank 只算出了自己那几列的贡献，而前一层要的是总和。',
      '在各 rank 间求和并让每个 rank 都拿到结果，就是 all-reduce。前向里的写法是：%down~1’1 = all-reduce %down~1 over=tp combine=sum（撇号用直的）。',
      '那一行只是发起通信。在有人读结果之前，还要有一行 wait 加结果的名字。',
      '有了 %d.x 就可以发起；wait 可以一直拖到 add 之前。两者之间的计算与通信同时进行。',
    ],
    proves:
      '前向的求和在层的末尾，反向的求和在层的开头，各一次 all-reduce。把你写 wait 的位置和答案比一比：up 的梯度不需要求和，可以趁通信时计算。',
  },
)

export default function TensorBackward() {
  const words = text()
  const { value, refusal } = useAnswer('fast', ['exercises', 'tensorBackward'], {})
  const check = async (written: string): Promise<Outcome> => {
    const { broken, beside } = await ask('fast', ['exercises', 'judgeTensorBackward'], { text: written })
    return { broken, ...(beside && { found: <EqualToOne beside={beside} ranks={2} /> }) }
  }
  return (
    <Exercise
      name="exercise/tp-backward"
      task={words.task}
      given={value && <Listing title={words.buffers} what={words.buffersWhat} code={value.declared} />}
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
