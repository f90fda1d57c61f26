/** Pipelines: the bubble, what microbatches do to it, and what schedules save. */
import { claim, isNear, yesIf } from './claim.js'
import type { Lab } from './lab.js'

type ScheduleName = Parameters<Lab['core']['makeSchedule']>[0]

/** Four ranks; a forward takes one tick, a backward two. */
const timed = (lab: Lab, name: ScheduleName, microbatches: number, { ranks = 4, chunks = 1 } = {}) =>
  lab.core.timing(lab.core.makeSchedule(name, { ranks, chunks, microbatches }))

const most = (peak: readonly number[]): number => Math.max(...peak)

export const pipeline = [
  claim({
    id: 'naive-pipeline',
    notes: ['A2.2', 'C', 'D2.3'],
    page: 'pipeline',
    text: {
      en: 'A pipeline without microbatches keeps one rank busy at a time: of four, three always wait.',
      zh: '不切微批次的流水线，同一时刻只有一个 rank 在工作：四个里总有三个在等。',
    },
    units: { bubble: 'share', busy: 'share' },
    numbers: lab => {
      const { bubble } = timed(lab, 'gpipe', 1)
      return { bubble, busy: 1 - bubble }
    },
    holds: ({ busy }) => yesIf(isNear(busy, 1 / 4, 1e-9)),
    say: v => ({
      en: `With one microbatch on four ranks ${v.bubble} of the time is idle, ${v.busy} is work.`,
      zh: `四个 rank、一个微批次：${v.bubble} 的时间空闲，只有 ${v.busy} 在干活。`,
    }),
    command: 'lockstep schedule gpipe --pp 4 --microbatches 1',
  }),
  claim({
    id: 'bubble-formula',
    notes: ['A2.2', 'B3b', 'E1.2.2'],
    page: 'pipeline',
    text: {
      en: 'With p ranks and m microbatches the idle share is (p - 1) / (m + p - 1): more microbatches, less bubble.',
      zh: 'p 个 rank、m 个微批次时，空闲占比为 (p - 1) / (m + p - 1)：微批次越多，气泡越小。',
    },
    units: { four: 'share', eight: 'share', sixteen: 'share' },
    numbers: lab => ({
      four: timed(lab, '1f1b', 4).bubble,
      eight: timed(lab, '1f1b', 8).bubble,
      sixteen: timed(lab, '1f1b', 16).bubble,
    }),
    holds: ({ four, eight, sixteen }) =>
      yesIf(isNear(four, 3 / 7, 1e-9) && isNear(eight, 3 / 11, 1e-9) && isNear(sixteen, 3 / 19, 1e-9)),
    say: v => ({
      en: `Four ranks run 4, 8 and 16 microbatches with ${v.four}, ${v.eight} and ${v.sixteen} idle: 3/7, 3/11, 3/19.`,
      zh: `四个 rank 跑 4、8、16 个微批次，空闲 ${v.four}、${v.eight}、${v.sixteen}，正是 3/7、3/11、3/19。`,
    }),
    command: 'lockstep schedule 1f1b --pp 4 --microbatches 8',
  }),
  claim({
    id: 'one-f-one-b-has-less-bubble',
    notes: ['C'],
    page: 'pipeline',
    disputed: true,
    text: {
      en: '1F1B has a smaller bubble than GPipe.',
      zh: '1F1B 的气泡比 GPipe 小。',
    },
    units: { gpipe: 'ticks', onefoneb: 'ticks', heldByGpipe: 'count', held: 'count' },
    numbers: lab => {
      const [gpipe, alternating] = [timed(lab, 'gpipe', 8), timed(lab, '1f1b', 8)]
      return {
        ...{ gpipe: gpipe.makespan, onefoneb: alternating.makespan },
        ...{ heldByGpipe: most(gpipe.peak), held: most(alternating.peak) },
      }
    },
    holds: ({ gpipe, onefoneb }) => yesIf(onefoneb < gpipe),
    say: v => ({
      en: `Both take ${v.onefoneb} and ${v.gpipe} ticks for 8 microbatches on 4 ranks; what falls is memory: ${v.held} microbatches held at most instead of ${v.heldByGpipe}.`,
      zh: `4 个 rank、8 个微批次，两者分别用 ${v.onefoneb} 和 ${v.gpipe} 拍，并无差别；省下的是显存：最多同时存 ${v.held} 个微批次，而不是 ${v.heldByGpipe} 个。`,
    }),
    command: 'lockstep schedule 1f1b --pp 4 --microbatches 8',
  }),
  claim({
    id: 'one-f-one-b-memory',
    notes: ['C', 'A2.2'],
    page: 'pipeline',
    text: {
      en: 'Under 1F1B the first rank holds as many microbatches as there are ranks, the last rank one, however many a step has.',
      zh: '1F1B 下，第一个 rank 最多同时保留与 rank 数相同的微批次，最后一个只保留一个，与一步里微批次总数无关。',
    },
    units: { first: 'count', last: 'count', firstOfMany: 'count' },
    numbers: lab => {
      const { peak } = timed(lab, '1f1b', 8)
      return { first: peak[0], last: peak[3], firstOfMany: timed(lab, '1f1b', 64).peak[0] }
    },
    holds: ({ first, last, firstOfMany }) => yesIf(first === 4 && last === 1 && firstOfMany === first),
    say: v => ({
      en: `On four ranks the first holds ${v.first}, the last ${v.last}; with 64 microbatches the first still holds ${v.firstOfMany}.`,
      zh: `四个 rank 时，第一个保留 ${v.first} 个，最后一个 ${v.last} 个；换成 64 个微批次，第一个仍是 ${v.firstOfMany} 个。`,
    }),
    command: 'lockstep schedule 1f1b --pp 4 --microbatches 64',
  }),
  claim({
    id: 'zero-bubble',
    notes: ['A2.2', 'D3'],
    page: 'pipeline',
    text: {
      en: 'Splitting the backward pass in two and filling gaps with weight gradients makes the bubble much smaller in the same memory.',
      zh: '把反向拆成两半，用权重梯度的计算去填空隙，同样的显存下气泡会小得多。',
    },
    units: { usual: 'share', split: 'share', held: 'count', usualHeld: 'count' },
    numbers: lab => {
      const [usual, split] = [timed(lab, '1f1b', 8), timed(lab, 'zb-h1', 8)]
      return { usual: usual.bubble, split: split.bubble, usualHeld: most(usual.peak), held: most(split.peak) }
    },
    holds: ({ usual, split, held, usualHeld }) => yesIf(split < usual / 2 && held <= usualHeld),
    say: v => ({
      en: `1F1B idles ${v.usual}, ZB-H1 ${v.split}, both holding ${v.held} of ${v.usualHeld} microbatches at most (4 ranks, 8 microbatches).`,
      zh: `4 个 rank、8 个微批次：1F1B 空闲 ${v.usual}，ZB-H1 只有 ${v.split}，最多保留的微批次都是 ${v.held}（1F1B：${v.usualHeld}）。`,
    }),
    command: 'lockstep schedule zb-h1 --pp 4 --microbatches 8',
  }),
  claim({
    id: 'bubble-nearly-gone',
    notes: ['A2.2'],
    page: 'pipeline',
    text: {
      en: 'Clever orders bring the bubble down to a few per cent.',
      zh: '更巧妙的调度能把气泡压到百分之几。',
    },
    units: { v: 'share', dual: 'share' },
    numbers: lab => ({
      v: timed(lab, 'zb-v', 8, { chunks: 2 }).bubble,
      dual: timed(lab, 'dualpipe', 8).bubble,
    }),
    holds: ({ v, dual }) => yesIf(v < 0.1 && dual < 0.1),
    say: v => ({
      en: `ZB-V idles ${v.v} and DualPipe ${v.dual} on 4 ranks with 8 microbatches; DualPipe holds every stage twice for it.`,
      zh: `4 个 rank、8 个微批次：ZB-V 空闲 ${v.v}，DualPipe 空闲 ${v.dual}；后者为此让每个 stage 存两份。`,
    }),
    command: 'lockstep schedule zb-v --pp 4 --microbatches 8',
  }),
  claim({
    id: 'interleaving-divides',
    notes: ['A2.2', 'A3.2'],
    page: 'pipeline',
    text: {
      en: 'Giving each rank v chunks of layers divides the bubble by v.',
      zh: '让每个 rank 持有 v 段不相邻的层，气泡就除以 v。',
    },
    units: { one: 'ticks', two: 'ticks', four: 'ticks' },
    numbers: lab => {
      const idle = (chunks: number) => {
        const { idle, makespan } = timed(lab, 'interleaved', 8, { chunks })
        return (idle[0] / makespan / (1 - idle[0] / makespan)) * 24
      }
      return { one: idle(1), two: idle(2), four: idle(4) }
    },
    holds: ({ one, two, four }) => yesIf(isNear(two, one / 2, 0.01) && isNear(four, one / 4, 0.01)),
    say: v => ({
      en: `For 24 ticks of work a rank waits ${v.one} with one chunk, ${v.two} with two, ${v.four} with four.`,
      zh: `每 24 拍的工作，一段时等 ${v.one} 拍，两段 ${v.two} 拍，四段 ${v.four} 拍。`,
    }),
    command: 'lockstep schedule interleaved --pp 4 --chunks 4 --microbatches 8',
  }),
]
