/** Where the time of a step goes, as parts of a bar. */
import { defineText } from '../../base/language.js'
import type { Part } from '../../parts/bars.js'
import type { Compared } from '../../work/compared.js'

const text = defineText(
  {
    compute: 'compute',
    recompute: 'recomputation',
    tp: 'waiting for tp',
    dp: 'waiting for dp',
    optimizer: 'optimizer',
    other: 'other',
  },
  {
    compute: '计算',
    recompute: '重计算',
    tp: '等待 tp 通信',
    dp: '等待 dp 通信',
    optimizer: '优化器',
    other: '其他',
  },
)

const classes = {
  compute: 'compute',
  recompute: 'activations',
  tp: 'workspace',
  dp: 'gradients',
  optimizer: 'optimizer',
} as const

/** Parts that are less than a thousandth of the step are counted with the others. */
export function timesOf({ step, parts }: Pick<Compared, 'step' | 'parts'>): Part[] {
  const words = text()
  const names = Object.keys(classes) as (keyof typeof classes)[]
  const large = names.filter(name => parts[name] > step / 1000)
  const known = large.reduce((sum, name) => sum + parts[name], 0)
  const shown = large.map(name => ({ name: words[name], value: parts[name], kind: classes[name] as string }))
  return step - known > step / 1000 ? [...shown, { name: words.other, value: step - known, kind: 'other' }] : shown
}
