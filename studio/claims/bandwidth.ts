/** Collectives: what they cost by size, and how one is made of two others. */
import { claim, isNear, yesIf } from './claim.js'
import type { Lab } from './lab.js'

type Kind = Parameters<Lab['core']['quote']>[0]['kind']

/** On H100, neighbours. */
const priced = (lab: Lab, kind: Kind, bytes: number, size = 8) =>
  lab.core.quote({ kind, bytes, group: { size, stride: 1 } }, lab.core.clusterOf('h100', size))

const offer = (lab: Lab, algorithm: string, bytes: number) =>
  priced(lab, 'all-reduce', bytes).offers.find(offer => offer.algorithm === algorithm)?.seconds ?? Number.NaN

export const bandwidth = [
  claim({
    id: 'all-reduce-is-two',
    notes: ['A1.3', 'D1.1.7', 'D1.4'],
    page: 'all-reduce',
    text: {
      en: 'An all-reduce is a reduce-scatter and an all-gather, and costs what the two cost.',
      zh: 'all-reduce 就是 reduce-scatter 加 all-gather，代价也等于两者之和。',
    },
    units: { whole: 'seconds', scatter: 'seconds', gather: 'seconds', start: 'seconds' },
    numbers: lab => {
      const whole = priced(lab, 'all-reduce', 1e9)
      const [scatter, gather] = (['reduce-scatter', 'all-gather'] as const).map(kind => priced(lab, kind, 1e9).seconds)
      return { whole: whole.seconds, scatter, gather, start: whole.start }
    },
    holds: ({ whole, scatter, gather, start }) => yesIf(isNear(scatter + gather - start, whole, 0.002)),
    say: v => ({
      en: `1 GB over 8 H100: ${v.whole} at once, ${v.scatter} and ${v.gather} in two; the difference is one start of ${v.start}.`,
      zh: `8 张 H100 上 1 GB：一次做完 ${v.whole}，分两步为 ${v.scatter} 加 ${v.gather}；差别只是多一次 ${v.start} 的启动。`,
    }),
    command: 'lockstep cost all-reduce --size 1GB --ranks 8 --cluster h100',
  }),
  claim({
    id: 'ring-carries',
    notes: ['E3.1.1'],
    page: 'all-reduce',
    text: {
      en: 'Round a ring of n ranks an all-reduce takes 2(n - 1) steps of an n-th each, so a rank sends nearly twice the data, however two ranks there are.',
      zh: 'n 个 rank 的环形 all-reduce 要 2(n - 1) 步，每步传 1/n，所以无论多少 rank，每个 rank 发送的都接近数据量的两倍。',
    },
    units: { eight: 'times', two: 'times' },
    numbers: lab => {
      const carried = (ranks: number) =>
        (priced(lab, 'all-reduce', 1e9, ranks).offers.find(({ algorithm }) => algorithm === 'ring')?.carried[0] ??
          Number.NaN) / 1e9
      return { eight: carried(8), two: carried(2) }
    },
    holds: ({ eight, two }) => yesIf(isNear(eight, (2 * 7) / 8, 1e-9) && isNear(two, 1, 1e-9)),
    say: v => ({
      en: `The ring carries ${v.eight} the data out of each of 8 ranks, ${v.two} out of each of 2.`,
      zh: `8 个 rank 的环上，每个 rank 发出 ${v.eight} 的数据量；2 个 rank 时为 ${v.two}。`,
    }),
    command: 'lockstep cost all-reduce --size 1GB --ranks 8 --cluster h100',
  }),
  claim({
    id: 'bus-bandwidth',
    notes: ['D1.5'],
    page: 'bandwidth',
    text: {
      en: 'The bandwidth of an all-reduce is size times 2(n - 1) / n over the time: then it can be held against that of the link.',
      zh: 'all-reduce 的带宽按 数据量 × 2(n - 1)/n ÷ 时间 计算，这样才能和链路带宽相比。',
    },
    units: { factor: 'times', busbw: 'bytes/s', link: 'bytes/s' },
    numbers: lab => {
      const { busFactor, busbw, hops } = priced(lab, 'all-reduce', 16e9, 4)
      return { factor: busFactor, busbw, link: hops[0].bandwidth }
    },
    holds: ({ factor, busbw, link }) => yesIf(isNear(factor, 1.5, 1e-9) && isNear(busbw, link, 0.02)),
    say: v => ({
      en: `Of 4 ranks the factor is ${v.factor}; 16 GB then reach ${v.busbw}, where the links give at most ${v.link}.`,
      zh: `4 个 rank 时系数为 ${v.factor}；16 GB 达到 ${v.busbw}，而链路上限是 ${v.link}。`,
    }),
    command: 'lockstep cost all-reduce --size 16GB --ranks 4 --cluster h100',
  }),
  claim({
    id: 'alpha-beta',
    notes: ['E2.2'],
    page: 'bandwidth',
    text: {
      en: 'A message takes a fixed start and a time for each byte: T = α + β · size.',
      zh: '一次通信的时间等于固定启动开销加上与字节数成正比的部分：T = α + β · 大小。',
    },
    units: { small: 'seconds', first: 'seconds', second: 'seconds', third: 'seconds' },
    numbers: lab => ({
      small: offer(lab, 'ring', 1e3),
      ...{ first: offer(lab, 'ring', 1e9), second: offer(lab, 'ring', 2e9), third: offer(lab, 'ring', 3e9) },
    }),
    holds: ({ small, first, second, third }) =>
      yesIf(
        isNear(third - second, second - first, 1e-6) && small > 1e-5 && isNear(first - (second - first), small, 0.01),
      ),
    say: v => ({
      en: `Round a ring of 8 H100 1, 2 and 3 GB take ${v.first}, ${v.second} and ${v.third}: a straight line that begins at the ${v.small} of a kilobyte.`,
      zh: `8 张 H100 的环上，1、2、3 GB 用时 ${v.first}、${v.second}、${v.third}：一条直线，起点就是 1 kB 的 ${v.small}。`,
    }),
    command: 'lockstep cost all-reduce --sizes 1KiB..2GiB --ranks 8 --cluster h100',
  }),
  claim({
    id: 'algorithm-by-size',
    notes: ['D1.3'],
    page: 'bandwidth',
    text: {
      en: 'The library picks another algorithm for short messages than for long ones.',
      zh: '通信库会按消息大小挑选不同算法：短消息与长消息用的不是同一种。',
    },
    units: { shortTree: 'seconds', shortRing: 'seconds', longTree: 'seconds', longRing: 'seconds' },
    numbers: lab => ({
      ...{ shortTree: offer(lab, 'tree', 1e3), shortRing: offer(lab, 'ring', 1e3) },
      ...{ longTree: offer(lab, 'tree', 1e9), longRing: offer(lab, 'ring', 1e9) },
    }),
    holds: v => yesIf(v.shortTree < v.shortRing && v.longRing < v.longTree),
    say: v => ({
      en: `A kilobyte takes ${v.shortTree} by trees and ${v.shortRing} round a ring; a gigabyte ${v.longTree} and ${v.longRing}.`,
      zh: `1 kB 用树 ${v.shortTree}、用环 ${v.shortRing}；1 GB 用树 ${v.longTree}、用环 ${v.longRing}。`,
    }),
    command: 'lockstep cost all-reduce --sizes 1KiB..1GiB --ranks 8 --cluster h100',
  }),
]
