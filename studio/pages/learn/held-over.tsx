/** What a rank holds over a step of several microbatches, with gradients reduced after each of them or once. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { bytes, seconds } from '../../base/numbers.js'
import { Areas, areaRows } from '../../parts/areas.js'
import { Figure } from '../../parts/figure.js'
import { nameOfKind } from '../../parts/kinds.js'
import { Controls } from '../../parts/knobs.js'
import { Trouble } from '../../parts/trouble.js'
import type { Answer } from '../../work/answer.js'
import type { HeldAnswer, Reduce } from '../../work/memory-lessons.js'

const text = defineText(
  {
    title: (zero: number) => `What a rank holds over a step of four microbatches, ZeRO-${zero}`,
    time: 'Time',
    reduce: 'Gradients are reduced',
    reduces: { microbatch: 'after each microbatch', step: 'once a step' },
    peak: (most: string, when: string, step: string) =>
      `The most is ${most}, ${when} into a step of ${step}; activations rise and fall with every microbatch.`,
    both: (each: string, eachBytes: string, once: string, onceBytes: string) =>
      `Reduced after each microbatch, gradients take ${each} at most and a rank brings ${eachBytes} to reductions; reduced once a step, ${once} and ${onceBytes}.`,
    whole: (held: string) =>
      `Below stage 2 gradients are whole, ${held}, from the first backward to the last: they can be reduced once a step only.`,
  },
  {
    title: (zero: number) => `四个微批次的一步里，一个 rank 存多少（ZeRO-${zero}）`,
    time: '时间',
    reduce: '梯度何时归约',
    reduces: { microbatch: '每个微批次之后', step: '一步一次' },
    peak: (most: string, when: string, step: string) =>
      `最多时占 ${most}，在 ${step} 的一步里的 ${when} 处；激活值随每个微批次涨落。`,
    both: (each: string, eachBytes: string, once: string, onceBytes: string) =>
      `每个微批次之后归约：梯度最多占 ${each}，一个 rank 交出 ${eachBytes} 去归约；一步一次：${once} 和 ${onceBytes}。`,
    whole: (held: string) => `第 2 级以下梯度是完整的，占 ${held}，从第一次反向一直留到最后一次：只能一步归约一次。`,
  },
)

const table = { reduce: oneOf(['microbatch', 'step']) }

interface HeldOverProps {
  readonly answers: Answer<readonly HeldAnswer[]>
  readonly capacity: number | undefined
  readonly zero: number
}

export function HeldOver({ answers: { value, refusal, pending }, capacity = 0, zero }: HeldOverProps) {
  const knobs = readKnobs(table)
  const words = text()
  const [each, once] = value ?? []
  const shown = (knobs.chosen.reduce === 'step' && once) || each
  const caption = shown ? `${peakOf(shown)} ${once ? bothOf(each!, once) : words.whole(bytes(each!.gradients))}` : '…'
  const labels = { reduce: { label: words.reduce, show: (reduce: Reduce) => words.reduces[reduce] } }
  return (
    <>
      {refusal && <Trouble why={refusal} />}
      <Figure
        title={words.title(zero)}
        caption={caption}
        rows={shown ? areaRows(shown.live, words.time, nameOfKind) : { head: [], body: [] }}
        pending={pending}
      >
        {zero >= 2 && <Controls knobs={knobs} labels={labels} />}
        {shown && <Areas live={shown.live} capacity={capacity} label={caption} nameOf={nameOfKind} />}
      </Figure>
    </>
  )
}

const peakOf = ({ live: { peak, step } }: HeldAnswer): string =>
  text().peak(bytes(peak.bytes), seconds(peak.at), seconds(step))

const bothOf = (each: HeldAnswer, once: HeldAnswer): string =>
  text().both(bytes(each.gradients), bytes(each.reduced), bytes(once.gradients), bytes(once.reduced))
