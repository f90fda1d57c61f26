/**
 * Memory, time and traffic of one job under plans that save memory in different ways: each plan a triangle whose corners lie as far out as
 * the largest of all plans lets them.
 */
import { defineText } from '../../base/language.js'
import { bytes, percent, seconds, short } from '../../base/numbers.js'
import { Figure } from '../../parts/figure.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import type { Compared } from '../../work/compared.js'
import type { JobText } from '../../work/jobs.js'
import './prices.css'

const text = defineText(
  {
    title: 'Three prices of a plan: memory, time, traffic',
    head: ['Plan', 'Memory a rank', 'Step', 'Sent by a rank'],
    ways: {
      none: 'copies alone',
      zero1: 'ZeRO-1',
      zero3: 'ZeRO-3',
      full: 'recomputation',
      both: 'ZeRO-3, recomputation',
      tp: 'tp 8, sequence split',
    },
    corners: ['memory', 'time', 'traffic'],
    caption: (label: string, saved: string, time: string, traffic: string) =>
      `Beside copies alone, “${label}” saves most, ${saved} a rank; a step takes ${time} of the time, and a rank sends ${traffic} times as much.`,
    none: 'No plan is lowest in all three: what is saved in one is paid in another.',
    best: (label: string) => `“${label}” is lowest in all three here.`,
  },
  {
    title: '一个方案的三种代价：显存、时间、通信',
    head: ['方案', '每个 rank 的显存', '一步', '每个 rank 发出'],
    ways: {
      none: '只有副本',
      zero1: 'ZeRO-1',
      zero3: 'ZeRO-3',
      full: '重计算',
      both: 'ZeRO-3 加重计算',
      tp: 'tp 8，序列也切',
    },
    corners: ['显存', '时间', '通信'],
    caption: (label: string, saved: string, time: string, traffic: string) =>
      `与只有副本相比，“${label}”省得最多，每个 rank 省 ${saved}；一步的时间是原来的 ${time}，每个 rank 发出的字节是 ${traffic} 倍。`,
    none: '没有哪个方案三样都最低：这里省下的，在那里付出。',
    best: (label: string) => `这里“${label}”三样都最低。`,
  },
)

type Way = keyof ReturnType<typeof text>['ways']

/** Changes of a plan of data parallel ranks; tensors are split inside a node. */
const changes: Readonly<Record<Way, Readonly<Record<string, unknown>>>> = {
  none: { zero: 0, recompute: 'none' },
  zero1: { zero: 1, recompute: 'none' },
  zero3: { zero: 3, recompute: 'none' },
  full: { zero: 0, recompute: 'full' },
  both: { zero: 3, recompute: 'full' },
  tp: { zero: 0, recompute: 'none', tp: 8, sequenceParallel: true },
}

/** A microbatch has as many sequences as before, for eight ranks together. */
const wide = ({ dp, microbatches = 1 }: JobText['plan']) => ({
  dp: Number(dp) / 8,
  microbatches: 8 * Number(microbatches),
})

/** Of fewer ranks than a node has, tensors are not split. */
function jobsOf({ model, training, plan }: JobText): readonly (readonly [Way, JobText])[] {
  const ranks = Number(plan.dp)
  return (Object.keys(changes) as Way[]).flatMap(way =>
    way === 'tp' && ranks % 8 > 0
      ? []
      : [[way, { model, training, plan: { ...plan, ...changes[way], ...(way === 'tp' && wide(plan)) } }] as const],
  )
}

/** `job` has dp and no other axis. */
export function Prices({ job, device }: { readonly job: JobText; readonly device: string }) {
  const jobs = jobsOf(job)
  const input = { jobs: jobs.map(([, job]) => job), device }
  const { value = [], refusal, pending } = useAnswer('long', ['compared', 'compared'], input)
  const words = text()
  const plans = value.length === jobs.length ? value.map((plan, n) => ({ label: words.ways[jobs[n]![0]], plan })) : []
  const rows = {
    head: words.head,
    body: plans.map(({ label, plan: { arena, step, sent } }) => [label, bytes(arena), seconds(step), bytes(sent)]),
  }
  const most = mostOf(plans.map(({ plan }) => plan))
  return (
    <>
      {refusal && <Trouble why={refusal} />}
      <Figure title={words.title} caption={plans.length > 0 ? captionOf(plans) : '…'} rows={rows} pending={pending}>
        <ul class="prices">
          {plans.map(({ label, plan }) => (
            <li key={label}>
              <strong>{label}</strong>
              <Triangle shares={pricesOf(plan).map((price, n) => price / most[n]!)} />
              {[bytes(plan.arena), seconds(plan.step), bytes(plan.sent)].map((price, n) => (
                <span key={n}>{`${words.corners[n]} ${price}`}</span>
              ))}
            </li>
          ))}
        </ul>
      </Figure>
    </>
  )
}

interface Labelled {
  readonly label: string
  readonly plan: Compared
}

const pricesOf = ({ arena, step, sent }: Compared): readonly number[] => [arena, step, sent]
const mostOf = (plans: readonly Compared[]): number[] =>
  [0, 1, 2].map(n => Math.max(...plans.map(plan => pricesOf(plan)[n]!), Number.MIN_VALUE))

function captionOf(plans: readonly Labelled[]): string {
  const words = text()
  const none = plans[0]!.plan
  const least = plans.reduce((best, each) => (each.plan.arena < best.plan.arena ? each : best))
  const lowest = plans.find(({ plan }) =>
    pricesOf(plan).every((price, n) => plans.every(other => price <= pricesOf(other.plan)[n]!)),
  )
  const said = words.caption(
    ...([least.label, bytes(none.arena - least.plan.arena)] as const),
    ...([percent(least.plan.step / none.step), short(least.plan.sent / none.sent)] as const),
  )
  return `${said} ${lowest ? words.best(lowest.label) : words.none}`
}

const [middle, radius] = [{ x: 80, y: 78 }, 56]
const angles = [-90, 150, 30].map(degrees => (degrees * Math.PI) / 180)
const cornerAt = (n: number, share: number) => ({
  x: middle.x + radius * share * Math.cos(angles[n]!),
  y: middle.y + radius * share * Math.sin(angles[n]!),
})
const pointsOf = (shares: readonly number[]): string =>
  shares
    .map((share, n) => cornerAt(n, share))
    .map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`)
    .join(' ')

/** The numbers stand below it. */
function Triangle({ shares }: { readonly shares: readonly number[] }) {
  const words = text()
  return (
    <svg viewBox="0 0 160 130" aria-hidden="true">
      <polygon class="most" points={pointsOf([1, 1, 1])} />
      {shares.map((_, n) => (
        <line key={n} class="axis" x1={middle.x} y1={middle.y} x2={cornerAt(n, 1).x} y2={cornerAt(n, 1).y} />
      ))}
      <polygon class="paid" points={pointsOf(shares)} />
      {words.corners.map((name, n) => (
        <text key={name} x={cornerAt(n, 1).x} y={cornerAt(n, 1).y + (n === 0 ? -5 : 14)} text-anchor="middle">
          {name}
        </text>
      ))}
    </svg>
  )
}
