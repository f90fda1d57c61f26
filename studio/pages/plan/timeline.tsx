/** The step of every role, span by span. */
import { useMemo } from 'preact/hooks'
import { seconds } from '../../base/numbers.js'
import { place } from '../../base/router.js'
import { Figure } from '../../parts/figure.js'
import { Timeline, type TimelineData } from '../../parts/timeline/index.js'
import { readRange, showRange } from '../../parts/timeline/view.js'
import { useAnswer } from '../../work/answer.js'
import type { Link } from '../../work/plan/link.js'
import { settle } from './state.js'
import { views } from './text-views.js'

export default function TimelineView({ link }: { readonly link: Link }) {
  const words = views().timeline
  const { value, pending } = useAnswer('program', ['plan-program', 'timeline'], link)
  const data = value?.data
  const body = useMemo(() => (data ? rowsOf(data) : []), [data])
  const spans = body.reduce((sum, [, , compute, network]) => sum + Number(compute) + Number(network), 0)
  const caption = data ? words.caption(data.tracks.length, spans, seconds(data.duration)) : '…'
  return (
    <Figure title={words.title} caption={caption} rows={{ head: words.head, body }} pending={pending}>
      {data && (
        <Timeline
          data={data}
          range={readRange(place.value.query.t, data.duration)}
          settle={view => settle({ t: showRange(view, data.duration) })}
        />
      )}
    </Figure>
  )
}

/** Spans and seconds of each track. */
const rowsOf = ({ tracks }: TimelineData) =>
  tracks.map(({ rank, ranks, compute, network }) => [
    ...[rank, ranks, lengthOf(compute), lengthOf(network)],
    seconds(busy(compute.spans)),
    seconds(busy(network.spans)),
  ])

interface Spans {
  readonly start: Float64Array
  readonly end: Float64Array
}

const lengthOf = ({ spans }: { readonly spans: Spans }): number => spans.start.length
const busy = ({ start, end }: Spans): number => end.reduce((sum, at, i) => sum + at - start[i]!, 0)
