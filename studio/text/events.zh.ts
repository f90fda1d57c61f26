/** What is found in runs, in Chinese: a title for every kind of event, where it happened, and what is said of it. */
import type { HealthEvent } from 'lockstep'
import { eventPhrasesZh } from './events-phrases.zh.js'
import { sentenceZh } from './sentences.zh.js'
import { speakZh } from './tongue.zh.js'

type EventKind = HealthEvent['event']

export const eventTitlesZh: Readonly<Record<EventKind, string>> = {
  notFinite: '出现了 NaN 或 Inf',
  skipped: '这一步被跳过：梯度范数是 NaN、Inf 或太大',
  lossSpike: '损失出现尖峰',
  normSpike: '梯度范数出现尖峰',
  straggler: '有 rank 算得比同类慢，其他 rank 在等它',
  imbalance: '各 stage、专家或 rank 的工作量不均',
  memory: '内存将满或已满',
  scaleStuck: 'loss scale 停在最小值，或一再下降',
  dataRepeats: '训练数据重复了',
  deadUnits: '模型有一部分已失活：梯度恰好为零',
  replicasDiffer: '同一参数在各副本上的比特不同',
  failed: '运行在最后一步之前失败：原因和出错的 rank',
  restart: '故障之后从较早的状态继续运行',
  replanned: '换了一个方案继续运行',
  checkpointDamaged: '有检查点不能用',
  checkpointDropped: '上一个检查点还没写完，这一个就到时间了',
  saveFailed: '检查点写不出来',
  timeout: '有一条指令用时远超正常',
  slowLink: '有链路比预测或同类链路慢',
  dataLoader: '各 rank 在等数据',
  prediction: '一步的用时与预测不符',
  diverges: '损失上升，没有回落',
  bubble: '流水线气泡在一步中占很大一部分',
  network: '集合通信占了一步的很大一部分',
  microbatches: '微批次太小，设备吃不满',
  axisOrder: '通信多的轴落在了慢链路上',
}

export const severitiesZh: Readonly<Record<HealthEvent['severity'], string>> = {
  note: '提示',
  warning: '警告',
  error: '错误',
}

/** '警告（第 12 步，rank 3，layers.1 ffn）：计算用时是同类 rank 的 1.50 倍 ……'; a line of an older run has its title alone. */
export function eventZh(said: Said): string {
  const { step, severity, rank, where, place: named } = said
  const places = [
    ...(step > 0 ? [`第 ${step} 步`] : []),
    ...(rank === undefined ? [] : [`rank ${rank}`]),
    ...(where === undefined ? [] : [named ? speakZh(named, eventPhrasesZh)[0] || where : where]),
  ]
  const place = places.length > 0 ? `（${places.join('，')}）` : ''
  return `${severitiesZh[severity]}${place}：${eventWordsZh(said).join('；')}`
}

/** What is so, and, where there is something, what to do about it. */
export function eventWordsZh({ event, phrase, values = {} }: Said): readonly string[] {
  const [message, advice] = phrase === undefined ? ['', ''] : speakZh({ phrase, values }, eventPhrasesZh, sentenceZh)
  return [message || eventTitlesZh[event], ...(advice ? [advice] : [])]
}

type Said = Pick<HealthEvent, 'step' | 'event' | 'severity' | 'rank' | 'where' | 'place' | 'phrase' | 'values'>
