/** Where the time of a step goes, as parts of a bar. */
import { defineText } from '../../base/language.js'
import type { Part } from '../../parts/bars.js'
import type { Compared } from '../../work/compared.js'

const text = defineText(
  {
    compute: 'compute',
    recompute: 'recomputation',
    tp: 'waiting for tp',
    cp: 'waiting for cp',
    ep: 'waiting for experts',
    dp: 'waiting for dp',
    pp: 'pipeline P2P',
    bubble: 'bubble',
    stragglers: 'slower ranks',
    optimizer: 'optimizer',
    offload: 'waiting for the host',
    other: 'other',
  },
  {
    compute: '计算',
    recompute: '重计算',
    tp: '等待 tp 通信',
    cp: '等待 cp 通信',
    ep: '等待专家通信',
    dp: '等待 dp 通信',
    pp: '流水线消息',
    bubble: '气泡',
    stragglers: '等慢的 rank',
    optimizer: '优化器',
    offload: '等待主机内存',
    other: '其他',
  },
)

type PartName = keyof ReturnType<typeof text>

const classes: Readonly<Record<PartName, string>> = {
  ...{ compute: 'compute', recompute: 'activations', bubble: 'lane-part', stragglers: 'lane-part', other: 'other' },
  ...{ tp: 'tp', cp: 'cp', ep: 'ep', dp: 'dp', pp: 'pp', optimizer: 'optimizer', offload: 'mesh' },
}

/** Parts of less than a thousandth of a step are counted with the others. */
export function timesOf({ step, parts }: Pick<Compared, 'step' | 'parts'>): Part[] {
  const words = text()
  const large = (Object.keys(words) as PartName[]).filter(name => name !== 'other' && parts[name] > step / 1000)
  const known = large.reduce((sum, name) => sum + parts[name], 0)
  const shown = large.map(name => ({ name: words[name], value: parts[name], kind: classes[name] }))
  return step - known > step / 1000 ? [...shown, { name: words.other, value: step - known, kind: 'other' }] : shown
}
