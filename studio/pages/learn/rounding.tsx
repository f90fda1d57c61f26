/** Small steps of an optimizer, rounded: the same training in four precisions, run in the page. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { fixed, percent, short } from '../../base/numbers.js'
import { Bars } from '../../parts/bars.js'
import { Figure } from '../../parts/figure.js'
import { Controls } from '../../parts/knobs.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import type { Rounded, RoundedRun } from '../../work/rounding.js'

const text = defineText(
  {
    title: 'Forty small steps of an MLP, run here: how far the loss fell',
    names: {
      f32: 'f32',
      bf16: 'bf16, f32 masters',
      'pure-bf16': 'pure bf16',
      stochastic: 'pure bf16, rounded by chance',
    },
    lr: 'Learning rate',
    caption: (masters: string, pure: string, moved: string) =>
      `With f32 masters the loss falls by ${masters}, in pure bf16 by ${pure}: there only ${moved} of the weights have moved at all, the steps of the others were rounded away each time.`,
    fell: 'fell by',
    head: ['Precision', 'First loss', 'Last loss', 'Fell by', 'Weights that moved'],
    note: (fell: string, moved: string) => `${fell} · ${moved} moved`,
  },
  {
    title: '一个 MLP 的四十个小步，就在这里跑：损失下降了多少',
    names: {
      f32: 'f32',
      bf16: 'bf16，f32 主权重',
      'pure-bf16': '纯 bf16',
      stochastic: '纯 bf16，随机舍入',
    },
    lr: '学习率',
    caption: (masters: string, pure: string, moved: string) =>
      `有 f32 主权重时损失下降 ${masters}，纯 bf16 时下降 ${pure}：那里只有 ${moved} 的权重动过，其余的每一步都被舍入掉了。`,
    fell: '下降',
    head: ['精度', '最初的损失', '最后的损失', '下降', '动过的权重'],
    note: (fell: string, moved: string) => `${fell} · ${moved} 动过`,
  },
)

const table = { lr: oneOf(['0.00003', '0.0003', '0.003']) }
const classes: Readonly<Record<Rounded, string>> = {
  ...{ f32: 'compute', bf16: 'workspace', 'pure-bf16': 'gradients', stochastic: 'activations' },
}

const fellBy = ({ first, last }: RoundedRun): number => Math.max(0, first - last)

export function Rounding() {
  const knobs = readKnobs(table)
  const { value = [], refusal, pending } = useAnswer('long', ['rounding', 'rounded'], { lr: Number(knobs.chosen.lr) })
  const words = text()
  const of = (way: Rounded) => value.find(run => run.way === way)
  const [masters, pure] = [of('bf16'), of('pure-bf16')]
  const caption =
    masters && pure ? words.caption(short(fellBy(masters)), short(fellBy(pure)), percent(pure.moved)) : '…'
  const bars = value.map(run => ({
    label: words.names[run.way],
    parts: [{ name: words.fell, value: fellBy(run), kind: classes[run.way] }],
    note: words.note(short(fellBy(run)), percent(run.moved, 0)),
  }))
  const rows = {
    head: words.head,
    body: value.map(run => [
      ...[words.names[run.way], fixed(run.first, 5), fixed(run.last, 5)],
      ...[short(run.first - run.last), percent(run.moved)],
    ]),
  }
  return (
    <>
      {refusal && <Trouble why={refusal} />}
      <Figure title={words.title} caption={caption} rows={rows} pending={pending}>
        <Controls knobs={knobs} labels={{ lr: { label: words.lr } }} />
        <Bars bars={bars} show={short} label={caption} />
      </Figure>
    </>
  )
}
