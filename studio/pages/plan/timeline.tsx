/** The step of every role, span by span. */

import { seconds } from '../../base/numbers.js'
import { place } from '../../base/router.js'
import { Figure } from '../../parts/figure.js'
import { Timeline } from '../../parts/timeline/index.js'
import { useAnswer } from '../../work/answer.js'
import type { Link } from '../../work/plan/link.js'
import { settle } from './state.js'
import { views } from './text-views.js'

export default function TimelineView({ link }: { readonly link: Link }) {
  const words = views().timeline
  const { value, pending } = useAnswer('program', ['plan-program', 'timeline'], link)
  const data = value?.data
  const spans = data?.tracks.reduce((n, { compute, network }) => n + lengthOf(compute) + lengthOf(network), 0) ?? 0
  const body = (data?.tracks ?? []).map(({ rank, ranks, compute, network }) => [
    ...[rank, ranks, lengthOf(compute), lengthOf(network)],
    seconds(busy(compute.spans)),
    seconds(busy(network.spans)),
  ])
  const caption = data ? words.caption(data.tracks.length, spans, seconds(data.duration)) : '…'
  return (
    <Figure title={words.title} caption={caption} rows={{ head: words.head, body }} pending={pending}>
      {data && (
        <Timeline data={data} range={rangeOf(place.value.query.t, data.duration)} settle={remember(data.duration)} />
      )}
    </Figure>
  )
}

interface Spans {
  readonly start: Float64Array
  readonly end: Float64Array
}

const lengthOf = ({ spans }: { readonly spans: Spans }): number => spans.start.length
const busy = ({ start, end }: Spans): number => end.reduce((sum, at, i) => sum + at - start[i]!, 0)

/** `0.31-0.52`, in seconds; whatever else stands there is the whole step. */
function rangeOf(text: string | undefined, duration: number) {
  const [, from, to] = text?.match(/^(\d*\.?\d+)-(\d*\.?\d+)$/) ?? []
  if (from === undefined || to === undefined || Number(from) >= Number(to) || Number(from) >= duration) return
  return { from: Number(from), to: Math.min(duration, Number(to)) }
}

const remember =
  (duration: number) =>
  ({ from, to }: { readonly from: number; readonly to: number }) =>
    settle({ t: from <= 0 && to >= duration ? undefined : `${short(from)}-${short(to)}` })

const short = (value: number): string => String(Number(value.toPrecision(6)))
