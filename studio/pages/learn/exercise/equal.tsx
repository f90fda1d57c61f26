/** What the interpreter says of a program beside one rank. */
import { defineText } from '../../../base/language.js'
import type { Beside } from '../../../work/exercises/beside.js'

const text = defineText(
  {
    equal: (ranks: number, values: number, off: string) =>
      `Run on ${ranks} ranks and on one: ${values} values have a counterpart, and the farthest is ${off} of the largest number away.`,
    loss: (loss: string, serial: string) => `Loss ${loss} here, ${serial} on one rank.`,
  },
  {
    equal: (ranks: number, values: number, off: string) =>
      `在 ${ranks} 个 rank 和单个 rank 上各跑一步：${values} 个值能对上，相差最大的也只有其最大数的 ${off}。`,
    loss: (loss: string, serial: string) => `这里的 loss 为 ${loss}，单个 rank 上为 ${serial}。`,
  },
)

export function EqualToOne({ beside, ranks }: { readonly beside: Beside; readonly ranks: number }) {
  const words = text()
  return (
    <p class="equal">
      {words.equal(ranks, beside.values, beside.off === 0 ? '0' : beside.off.toExponential(1))}{' '}
      {words.loss(beside.loss.toPrecision(9), beside.serialLoss.toPrecision(9))}
    </p>
  )
}
