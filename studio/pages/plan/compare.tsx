/** Two plans beside each other: the one that was kept, and this one. */
import { bytes, percent, seconds } from '../../base/numbers.js'
import { isKept, ownQuery, ownText } from '../../base/own.js'
import { place } from '../../base/router.js'
import { type Bar, Bars } from '../../parts/bars.js'
import { Figure, Table } from '../../parts/figure.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import type { Compared } from '../../work/plan/compare.js'
import type { Link } from '../../work/plan/link.js'
import type { Numbers } from '../../work/plan/price.js'
import { opened, readShown, settle, showLink } from './state.js'
import { named, text } from './text.js'
import { views } from './text-views.js'

interface CompareProps {
  readonly link: Link
  /** The plan as it is, written out: that of a short link is not. */
  readonly word: string
}

export default function CompareView({ link, word }: CompareProps) {
  const words = views().compare
  const a = ownText('a')
  const here = showLink({ ...link, plan: word })
  const keep = (
    <button type="button" onClick={() => settle(ownQuery('a', here))}>
      {words.pin}
    </button>
  )
  if (a === undefined)
    return (
      <section class="compare">
        <p>{isKept('a') ? words.gone : words.how}</p>
        <p>{keep}</p>
      </section>
    )
  const other = readShown(a, link)
  const swap = () => {
    const { path, query } = place.peek()
    const to = { ...query, ...opened(other) } as Record<string, string> // what is undefined is left out of links
    settle({ ...opened(other), ...ownQuery('a', here, { path, query: to }) })
  }
  return (
    <section class="compare">
      <p class="chips">
        {keep}
        <button type="button" class="quiet" onClick={swap}>
          {words.swap}
        </button>
        <button type="button" class="quiet" onClick={() => settle({ a: undefined })}>
          {words.unpin}
        </button>
      </p>
      <Both a={other} b={link} />
    </section>
  )
}

function Both({ a, b }: { readonly a: Link; readonly b: Link }) {
  const words = views().compare
  const { value, refusal, pending } = useAnswer('program', ['plan-program', 'compare'], { a, b })
  if (refusal) return <Trouble why={refusal} />
  if (!value) return <p aria-busy="true">…</p>
  const { differences } = value
  const [one, two] = [value.a, value.b]
  const caption = words.caption(percent(two.step / one.step), percent(two.bytes / one.bytes))
  const figures = (numbers: Numbers) => [seconds(numbers.step), percent(numbers.mfu), bytes(numbers.bytes)]
  const names = [words.step, words.mfu, words.memory]
  const body = names.map((name, n) => [name, figures(one)[n]!, figures(two)[n]!])
  return (
    <>
      <Figure title={words.title} caption={caption} rows={{ head: ['', words.a, words.b], body }} pending={pending}>
        <Pairs {...value} />
      </Figure>
      <h2>{words.differs}</h2>
      {differences.length === 0 ? (
        <p>{words.same}</p>
      ) : (
        <Table
          label={words.differs}
          head={[words.field, words.a, words.b]}
          body={differences.map(({ field, a, b }) => [field, a, b])}
        />
      )}
    </>
  )
}

/** One scale for all seconds, one for all bytes: what is twice as long takes twice as much. */
function Pairs({ a, b }: Compared) {
  const words = text()
  const own = views().compare
  const time = (label: string, { parts, step }: Numbers): Bar => ({
    ...{ label, note: seconds(step) },
    parts: parts.map(([name, value]) => ({ name: named(words.parts, name), value, kind: `time ${name}` })),
  })
  const memory = (label: string, { ranks }: Numbers): Bar => {
    const most = ranks.reduce((x, y) => (y.bytes > x.bytes ? y : x))
    const parts = most.kinds.map(([kind, value]) => ({ name: named(words.kinds, kind), value, kind }))
    return { label, note: bytes(most.bytes), parts }
  }
  const limit = { label: words.capacity, value: b.capacity }
  return (
    <div class="pairs">
      <Bars bars={[time(own.a, a), time(own.b, b)]} show={seconds} label={words.where} />
      <Bars bars={[memory(own.a, a), memory(own.b, b)]} show={bytes} limit={limit} label={words.memory} />
    </div>
  )
}
