/** Bandwidth and latency: collectives timed here, on threads, and priced on a cluster. */

import { useState } from 'preact/hooks'
import { threads } from '../../base/isolation.js'
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { bytes, perSecond, seconds, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { LogBars } from '../../parts/log-bars.js'
import { listed } from '../../parts/names.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask, Refused } from '../../work/ask.js'
import type { Bench, Measured } from '../../work/hardware-lessons.js'
import type { JobText } from '../../work/jobs.js'
import type { Refusal } from '../../work/protocol.js'

const text = defineText(
  {
    claim:
      'A message costs a start and then a price a byte. Small ones pay for starting, large ones for bytes, and libraries change the algorithm in between.',
    priced: (device: string, ranks: number) => `All-reduce of ${ranks} ${device}, priced`,
    pricedCaption: (small: string, large: string, algorithms: string) =>
      `From ${small} of bus bandwidth at the smallest size to ${large} at the largest; the algorithms taken are ${algorithms}.`,
    head: ['Size', 'Bus bandwidth', 'Time', 'Algorithm'],
    measured: (ranks: number) => `All-reduce of ${ranks} threads of this page, measured`,
    measuredCaption: (alpha: string, rate: string) =>
      `The fit: ${alpha} to start, then ${rate}. Run it again and it differs a little: this is a measurement.`,
    nothing: 'Not measured yet.',
    measuring: 'Measuring …',
    start: 'Measure it here',
    noThreads: 'This page may not share memory, so it has no threads to time. Prices are there all the same.',
    device: 'Device',
    ranks: 'Ranks',
    here: 'Threads of this page',
    sentence: (size: string) => `At ${size} half of the time is bytes and half is everything before them.`,
    letters:
      'α: seconds to start; M bytes; B: bytes a second. Bus bandwidth counts 2(n − 1)/n bytes for each byte of the tensor, as nccl-tests does.',
    question: (device: string) =>
      `With 1,024 ${device}: how many KiB must an all-reduce have before half of its time is spent on bytes?`,
    kib: (n: string) => `${n} KiB`,
    why: 'Below that, many small tensors cost as many starts: put them into one bucket.',
    notice: [
      'Bus bandwidth, not size over time, is what compares with a link: it takes out that an all-reduce moves nearly everything twice.',
      'Inside a node trees need fewer steps and win when messages are small, rings win when they are large. Over many nodes a ring has so many steps that the tree stays ahead.',
      'A benchmark warms up, waits at a barrier and takes the median: the first run pays for pages of memory that nobody had touched.',
    ],
  },
  {
    claim: '一条消息先付一次启动，再按字节付费。小消息花在启动上，大消息花在字节上，通信库会在中间换算法。',
    priced: (device: string, ranks: number) => `${ranks} 张 ${device} 的 all-reduce，按模型计价`,
    pricedCaption: (small: string, large: string, algorithms: string) =>
      `总线带宽从最小消息的 ${small} 升到最大消息的 ${large}；用到的算法有 ${algorithms}。`,
    head: ['大小', '总线带宽', '时间', '算法'],
    measured: (ranks: number) => `本页 ${ranks} 个线程的 all-reduce，实测`,
    measuredCaption: (alpha: string, rate: string) =>
      `拟合：启动 ${alpha}，之后 ${rate}。再测一次会略有不同：这是实测。`,
    nothing: '还没有测。',
    measuring: '正在测……',
    start: '在这里测一测',
    noThreads: '本页不能共享内存，没有线程可测；计价照样可看。',
    device: '设备',
    ranks: 'rank 数',
    here: '本页的线程数',
    sentence: (size: string) => `消息为 ${size} 时，一半时间花在字节上，一半花在此前的一切上。`,
    letters: 'α：启动的秒数；M：字节数；B：每秒字节数。总线带宽按 nccl-tests 的算法，张量的每个字节计 2(n − 1)/n 个。',
    question: (device: string) => `换成 1,024 张 ${device}，all-reduce 至少要多少 KiB，才有一半时间花在字节上？`,
    kib: (n: string) => `${n} KiB`,
    why: '比这更小的张量，有多少个就付多少次启动：把它们装进一个桶里。',
    notice: [
      '能和链路相比的是总线带宽，不是大小除以时间：all-reduce 几乎把所有字节传了两遍，它把这一点折算掉了。',
      '在节点内，树的步数少，消息小时占优；消息大时环占优。节点一多，环的步数太多，树就一直领先。',
      '测速要先预热、在栅栏处对齐、取中位数：第一次要为从没碰过的内存页买单。',
    ],
  },
)

const table = {
  device: oneOf(['a100-80', 'h100', 'b200', 'gb200'], 'h100'),
  ranks: oneOf([2, 4, 8, 16, 64, 256], 8),
  here: oneOf([2, 3, 4], 2),
}

const formula = tex`T(M) = \alpha + \frac{M}{B} = \class{live}{\text{alpha}} + M\,/\,\class{live}{\text{B}}`

/** Gradients of many small tensors, which start together in buckets. */
const bucketed = (ranks: number): JobText => ({
  model: { family: 'mlp', layers: 2, embed: 8, ffn: 16 },
  training: { seq: 4, globalBatch: ranks },
  plan: { dp: ranks },
})

export default function Bandwidth() {
  const knobs = readKnobs(table)
  const { device, ranks, here } = knobs.chosen
  const priced = useAnswer('fast', ['hardware', 'pricedSizes'], { device, ranks })
  const line = useAnswer('fast', ['hardware', 'lineOf'], { device, ranks }).value
  const code = useAnswer('fast', ['excerpts', 'talk'], { job: bucketed(ranks) }).value
  const words = text()
  const half = line && line.alpha * line.rate
  const rows = priced.value ?? []
  return (
    <Lesson
      name="bandwidth"
      claim={words.claim}
      controls={
        <Controls
          knobs={knobs}
          labels={{
            device: { label: words.device, show: (device: string) => device.toUpperCase() },
            ranks: { label: words.ranks },
            here: { label: words.here },
          }}
        />
      }
      figure={
        <>
          {priced.refusal && <Trouble why={priced.refusal} />}
          <LogBars
            title={words.priced(device.toUpperCase(), ranks)}
            caption={
              rows.length > 0
                ? words.pricedCaption(
                    perSecond(rows[0]!.busbw),
                    perSecond(rows.at(-1)!.busbw),
                    listed([...new Set(rows.map(({ algorithm }) => algorithm))]),
                  )
                : ''
            }
            rows={rows.map(row => ({
              label: bytes(row.bytes),
              value: row.busbw,
              kind: row.algorithm === 'ring' ? 'compute' : 'workspace',
              note: `${row.algorithm}, ${perSecond(row.busbw)}`,
              cells: [perSecond(row.busbw), seconds(row.seconds), row.algorithm],
            }))}
            head={words.head}
            pending={priced.pending}
          />
        </>
      }
      sentence={half && words.sentence(bytes(half))}
      formula={{
        math: formula,
        live: line ? { alpha: seconds(line.alpha), B: perSecond(line.rate) } : {},
        letters: words.letters,
      }}
      more={<Here key={here} ranks={here} />}
      guess={{
        question: words.question(device.toUpperCase()),
        run: async () => {
          const { alpha, rate } = await ask('fast', ['hardware', 'lineOf'], { device, ranks: 1024 })
          return (alpha * rate) / 1024
        },
        show: n => words.kib(short(n)),
        why: () => words.why,
        min: 0,
      }}
      notice={words.notice}
      program={code}
      command={`lockstep cost all-reduce --size 1GiB --ranks ${ranks} --cluster ${device}`}
      says={rows.length > 0 ? { field: 'seconds', value: rows.at(-1)!.seconds } : undefined}
      also={[
        { line: `lockstep cost all-reduce --sizes 1KiB..1GiB --ranks ${ranks} --cluster ${device}` },
        { line: `lockstep bench collectives --ranks ${here}` },
      ]}
    />
  )
}

interface Running {
  readonly points: readonly Measured[]
  readonly bench?: Bench
  readonly refusal?: Refusal
  readonly busy: boolean
}

function Here({ ranks }: { readonly ranks: number }) {
  const [{ points, bench, refusal, busy }, put] = useState<Running>({ points: [], busy: false })
  const words = text()
  const run = async () => {
    put({ points: [], busy: true })
    try {
      const progress = (points: unknown) => put({ points: points as readonly Measured[], busy: true }) // bench tells points
      const bench = await ask('long', ['hardware', 'bench'], { ranks }, { progress })
      put({ points: bench.points, bench, busy: false })
    } catch (error) {
      put({
        points: [],
        busy: false,
        refusal: error instanceof Refused ? error.why : { message: String(error), problems: [] },
      })
    }
  }
  if (!threads.value) return <p>{words.noThreads}</p>
  const caption = bench
    ? words.measuredCaption(seconds(bench.fit.alpha), perSecond(bench.fit.rate))
    : busy
      ? words.measuring
      : words.nothing
  return (
    <>
      {refusal && <Trouble why={refusal} />}
      <LogBars
        title={words.measured(ranks)}
        caption={caption}
        rows={points.map(({ bytes: size, busbw, seconds: time }) => ({
          label: bytes(size),
          value: busbw,
          kind: 'activations',
          note: perSecond(busbw),
          cells: [perSecond(busbw), seconds(time), '–'],
        }))}
        head={words.head}
        pending={busy}
      />
      <button type="button" disabled={busy} onClick={() => void run()}>
        {words.start}
      </button>
    </>
  )
}
