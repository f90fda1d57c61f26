/** All-reduce taken apart: as a ring, step by step, and as two collectives, bit by bit. */
import { counted, type Grid, putNumber, readGrid } from '../../base/grid.js'
import { type Knobs, oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { bytes, seconds, short } from '../../base/numbers.js'
import { setQuery } from '../../base/router.js'
import { tex } from '../../base/tex.js'
import { NumberInput } from '../../parts/controls.js'
import { Figure } from '../../parts/figure.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Trouble } from '../../parts/trouble.js'
import { type Answer, useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { CostRow, RingAnswer } from '../../work/collectives.js'
import type { JobText } from '../../work/jobs.js'
import type { RingState } from '../../work/ring.js'
import './collectives/collectives.css'

const text = defineText(
  {
    claim:
      'An all-reduce is a reduce-scatter with an all-gather behind it. In a ring each rank talks to its neighbour alone, hands on an n-th of its numbers at a time, and after 2(n − 1) steps everybody has every sum.',
    ring: 'A ring, step by step',
    phase: { start: 'every rank has its own numbers', reduce: 'added up on the way', gather: 'sums go round' },
    caption: (step: number, all: number, phase: string, done: number, cells: number) =>
      `Step ${step} of ${all}, ${phase}: ${done} of ${cells} cells are complete sums.`,
    same: 'The ring ends with what the engine’s all-reduce leaves on every rank: no number differs.',
    differs: (n: number) => `The ring adds in another order than the engine: ${n} numbers differ in their last digits.`,
    rank: 'Rank',
    chunk: (n: number) => `chunk ${n}`,
    cell: (rank: number, chunk: number) => `rank ${rank}, chunk ${chunk}`,
    type: 'What ranks begin with',
    ranks: 'Ranks',
    step: 'Step',
    device: 'Priced on',
    bits: 'Both ways, bit by bit',
    bitsCaption: (differing: number, elements: number, ranks: number) =>
      `${differing} of ${elements} f32 numbers differ in any bit, on any of ${ranks} ranks.`,
    bitsHead: ['Ranks bring', 'all-reduce', 'reduce-scatter, all-gather'],
    cost: 'What each way takes',
    costCaption: (size: string, direct: string, inTwo: string) =>
      `${size}: ${direct} in one, ${inTwo} in two. Small messages pay for starting twice; large ones cost the same. Lengths are logarithms.`,
    costHead: ['Size', 'all-reduce', 'by', 'in two'],
    sentence: (steps: number, share: string) =>
      `In ${steps} steps each rank hands on ${share} times the tensor; with any number of ranks it stays below twice.`,
    letters: 'n ranks; M bytes of the tensor.',
    question: 'From 4 ranks to 64, the same tensor: how many times as many bytes does each rank hand on?',
    why: 'The factor 2(n − 1)/n nears two. More ranks make a ring longer, not heavier; what grows is the number of steps, so the latency.',
    notice: [
      'Half of the ring is a reduce-scatter: after n − 1 steps every rank has one complete sum, and no two the same.',
      'Both ways give the same bits here because the engine adds in the order of the ranks, whoever does it.',
      'Every link carries something in every step: that is why a ring reaches the full bandwidth, and why one slow link slows all.',
    ],
  },
  {
    claim:
      'all-reduce 就是 reduce-scatter 后面接一个 all-gather。排成环时，每个 rank 只和邻居说话，每次传 n 分之一；2(n − 1) 步之后，人人都有全部的和。',
    ring: '环，一步一步走',
    phase: { start: '各 rank 只有自己的数', reduce: '边传边加', gather: '把和传一圈' },
    caption: (step: number, all: number, phase: string, done: number, cells: number) =>
      `第 ${step} 步（共 ${all} 步），${phase}：${cells} 格里有 ${done} 格是完整的和。`,
    same: '环的结果和引擎的 all-reduce 在每个 rank 上完全相同。',
    differs: (n: number) => `环和引擎相加的次序不同：有 ${n} 个数在末位上有差别。`,
    rank: 'rank',
    chunk: (n: number) => `第 ${n} 块`,
    cell: (rank: number, chunk: number) => `rank ${rank} 的第 ${chunk} 块`,
    type: '各 rank 开始时的数',
    ranks: 'rank 数',
    step: '步',
    device: '按哪种设备计价',
    bits: '两种做法，逐位比较',
    bitsCaption: (differing: number, elements: number, ranks: number) =>
      `${ranks} 个 rank 上的 ${elements} 个 f32 数里，有 ${differing} 个存在任何一位不同。`,
    bitsHead: ['各 rank 带来', 'all-reduce', 'reduce-scatter 加 all-gather'],
    cost: '两种做法各要多久',
    costCaption: (size: string, direct: string, inTwo: string) =>
      `${size}：一次完成 ${direct}，分两次 ${inTwo}。消息小，要多付一次启动；消息大，代价一样。条长按对数。`,
    costHead: ['大小', 'all-reduce', '算法', '分两次'],
    sentence: (steps: number, share: string) =>
      `${steps} 步里，每个 rank 传出的数据是张量的 ${share} 倍；rank 再多也不会超过两倍。`,
    letters: 'n：rank 数；M：张量的字节数。',
    question: '同一个张量，rank 从 4 个变成 64 个，每个 rank 传出的字节数变为几倍？',
    why: '系数 2(n − 1)/n 趋近于 2。rank 多了，环更长而不更重；变多的是步数，也就是延迟。',
    notice: [
      '环的前一半就是 reduce-scatter：n − 1 步之后，每个 rank 恰有一个完整的和，互不相同。',
      '这里两种做法逐位相同，因为无论由谁来加，引擎都按 rank 的次序相加。',
      '每一步每条链路都在传：所以环能用满带宽，也所以一条慢链路会拖慢所有人。',
    ],
  },
)

const table = {
  ranks: oneOf([2, 3, 4, 5, 6], 4),
  step: oneOf([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 1),
  device: oneOf(['a100-80', 'h100', 'b200', 'gb200'], 'h100'),
}

const elements = 1000

/** Gradients summed on every rank, and summed in parts whose weights are gathered. */
const bothWays = (ranks: number): readonly JobText[] =>
  [0, 1].map(zero => ({
    model: { family: 'mlp', layers: 1, embed: 8, ffn: 16 },
    training: { seq: 4, globalBatch: ranks },
    plan: { dp: ranks, zero },
  }))

export default function AllReduce() {
  const read = readKnobs(table)
  const { ranks, device } = read.chosen
  const all = 2 * (ranks - 1)
  const step = Math.min(read.chosen.step, all)
  const { grid } = readGrid('x', [ranks, ranks], counted(ranks, ranks))
  const ring = useAnswer('fast', ['collectives', 'ring'], { x: grid })
  const code = useAnswer('fast', ['excerpts', 'talks'], { jobs: bothWays(ranks) }).value
  const costs = useAnswer('fast', ['collectives', 'costs'], { ranks, device })
  const largest = costs.value?.at(-1)
  const words = text()
  const knobs = stepsUpTo(read, all, step)
  const labels = {
    ranks: { label: words.ranks },
    step: { label: words.step, show: (step: number) => `${step} / ${all}` },
    device: { label: words.device, show: (device: string) => device.toUpperCase() },
  }
  return (
    <Lesson
      name="all-reduce"
      claim={words.claim}
      controls={<Controls knobs={knobs} labels={labels} />}
      figure={
        <>
          {ring.refusal && <Trouble why={ring.refusal} />}
          <Ring value={ring.value} pending={ring.pending} step={step} x={grid} />
        </>
      }
      sentence={words.sentence(all, short(all / ranks))}
      formula={{ math: formula, live: { n: String(ranks), factor: short(all / ranks) }, letters: words.letters }}
      more={
        <>
          <Bits ranks={ranks} />
          <Cost {...costs} />
        </>
      }
      guess={{
        question: words.question,
        run: () => ask('fast', ['collectives', 'grows'], { from: 4, to: 64 }),
        why: () => words.why,
        min: 0,
      }}
      notice={words.notice}
      program={code && [...code[0]!, ...code[1]!]}
      command={`lockstep cost all-reduce --size 1GiB --ranks ${ranks} --cluster ${device}`}
      says={largest && { field: 'seconds', value: largest.direct }}
      also={[{ line: `lockstep cost all-reduce --sizes 1KiB..1GiB --ranks ${ranks} --cluster ${device}` }]}
    />
  )
}

const formula = tex`\displaystyle 2\,\frac{n-1}{n}\,M = \class{live}{\text{factor}}\,M \qquad (n = \class{live}{\text{n}})`

type Table = typeof table

/** The slider ends where the ring does; other ranks begin with numbers of their own. */
function stepsUpTo(knobs: Knobs<Table>, all: number, step: number): Knobs<Table> {
  return {
    ...knobs,
    table: { ...table, step: { ...table.step, values: table.step.values.filter(each => each <= all) } },
    chosen: { ...knobs.chosen, step: step as Knobs<Table>['chosen']['step'] }, // at most the last step of this ring
    set: (changes, settled) => {
      if ('ranks' in changes) setQuery({ x: undefined })
      knobs.set(changes, settled)
    },
  }
}

interface RingProps {
  readonly value: RingAnswer | undefined
  readonly pending: boolean
  readonly step: number
  readonly x: Grid
}

function Ring({ value, pending, step, x }: RingProps) {
  const words = text()
  const states = value?.states ?? []
  const state = states[Math.min(step, states.length - 1)]
  const done = state?.summed.flat().filter(Boolean).length ?? 0
  const caption = state && words.caption(step, states.length - 1, words.phase[state.phase], done, x.length ** 2)
  const rows = {
    head: [words.rank, ...x.map((_, n) => words.chunk(n))],
    body: (state?.cells ?? []).map((row, rank) => [`rank ${rank}`, ...row]),
  }
  return (
    <Figure
      title={words.ring}
      caption={
        <>
          {caption ?? '…'} {value && (value.differing === 0 ? words.same : words.differs(value.differing))}
        </>
      }
      rows={rows}
      pending={pending}
    >
      {state && (step === 0 ? <Begin x={x} /> : <State state={state} />)}
    </Figure>
  )
}

/** Before the first step the numbers can be typed in. */
function Begin({ x }: { readonly x: Grid }) {
  const words = text()
  const put = (rank: number, chunk: number, number: number) => {
    if (Number.isFinite(Math.fround(number))) putNumber('x', x.length, [rank, chunk], number)
  }
  return (
    <section aria-label={words.type}>
      {x.map((row, rank) => (
        <div class={`cells rank-${rank % 6}`} key={rank}>
          <span class="who">rank {rank}</span>
          {row.map((value, chunk) => (
            <NumberInput
              key={chunk}
              step="any"
              value={value}
              aria-label={words.cell(rank, chunk)}
              change={number => put(rank, chunk, number)}
            />
          ))}
        </div>
      ))}
    </section>
  )
}

function State({ state }: { readonly state: RingState }) {
  const arrived = (rank: number, chunk: number) => state.moves.find(move => move.to === rank && move.chunk === chunk)
  const classOf = (rank: number, chunk: number) =>
    ['cell', arrived(rank, chunk) && 'moved', state.summed[rank]![chunk] && 'summed'].filter(Boolean).join(' ')
  return (
    <div>
      {state.cells.map((row, rank) => (
        <div class={`cells rank-${rank % 6}`} key={rank}>
          <span class="who">rank {rank}</span>
          {row.map((value, chunk) => (
            <output key={chunk} class={classOf(rank, chunk)}>
              {arrived(rank, chunk) ? '→ ' : ''}
              {short(value)}
              {state.summed[rank]![chunk] ? ' ✓' : ''}
            </output>
          ))}
        </div>
      ))}
    </div>
  )
}

function Bits({ ranks }: { readonly ranks: number }) {
  const { value, refusal, pending } = useAnswer('fast', ['collectives', 'twoWays'], { ranks, elements })
  const words = text()
  if (refusal) return <Trouble why={refusal} />
  const rows = {
    head: words.bitsHead,
    body: (value?.sample ?? []).map(({ brought, direct, inTwo }) => [brought.map(short).join(' + '), direct, inTwo]),
  }
  return (
    <Figure
      title={words.bits}
      caption={value ? words.bitsCaption(value.differing, elements, ranks) : '…'}
      rows={rows}
      pending={pending}
    >
      <ul class="bits">
        {(value?.sample ?? []).map(({ direct, inTwo }, n) => (
          <li key={n}>
            <code>{direct}</code> {direct === inTwo ? '=' : '≠'} <code>{inTwo}</code>
          </li>
        ))}
      </ul>
    </Figure>
  )
}

function Cost({ value = [], refusal, pending }: Answer<readonly CostRow[]>) {
  const words = text()
  if (refusal) return <Trouble why={refusal} />
  const most = Math.max(...value.map(({ inTwo }) => Math.log10(inTwo / 1e-6)), 1)
  const large = value.at(-1)
  const rows = {
    head: words.costHead,
    body: value.map(row => [bytes(row.bytes), seconds(row.direct), row.chosen, seconds(row.inTwo)]),
  }
  const wide = (time: number) => `${(Math.log10(time / 1e-6) / most) * 100}%`
  return (
    <Figure
      title={words.cost}
      caption={large ? words.costCaption(bytes(large.bytes), seconds(large.direct), seconds(large.inTwo)) : '…'}
      rows={rows}
      pending={pending}
    >
      <div class="bars" role="img" aria-label={words.cost}>
        {value.map(row => (
          <div class="bar pair" key={row.bytes}>
            <span class="bar-label">{bytes(row.bytes)}</span>
            <span class="track">
              <span class="part F" style={{ width: wide(row.direct) }} />
              <span class="part B" style={{ width: wide(row.inTwo) }} />
            </span>
            <span class="bar-note">
              {seconds(row.direct)} · {seconds(row.inTwo)}
            </span>
          </div>
        ))}
      </div>
    </Figure>
  )
}
