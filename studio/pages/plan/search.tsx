/** All plans of the job, found in a worker of their own while the controls go on answering. */
import { useState } from 'preact/hooks'
import { language } from '../../base/language.js'
import { bytes, count, percent, seconds, signed } from '../../base/numbers.js'
import { place } from '../../base/router.js'
import { Field } from '../../parts/controls.js'
import { Figure } from '../../parts/figure.js'
import { Trouble } from '../../parts/trouble.js'
import { useLong } from '../../work/long.js'
import type { Link } from '../../work/plan/link.js'
import type { FoundPlan, SearchAnswer } from '../../work/plan/search.js'
import { Scatter } from './scatter.js'
import { settle } from './state.js'
import { views } from './text-views.js'

export default function SearchView({ link }: { readonly link: Link }) {
  const words = views().search
  const where = place.value.query.where ?? ''
  const { value, refusal, pending } = useLong(['plan-search', 'search'], { link, where })
  const caption = value ? captionOf(value, pending) : '…'
  const body = (value?.plans ?? []).map(({ word, step, bytes: used }) => [word, seconds(step), bytes(used)])
  return (
    <>
      <Field label={words.where}>
        {id => (
          <input
            id={id}
            type="text"
            value={where}
            placeholder={words.whereHint}
            onChange={event => settle({ where: event.currentTarget.value.trim() || undefined })}
          />
        )}
      </Field>
      {refusal && <Trouble why={refusal} />}
      <Figure title={words.title} caption={caption} rows={{ head: words.head.slice(0, 3), body }} pending={pending}>
        {value && <Scatter answer={value} label={caption} />}
      </Figure>
      {value?.impossible && <Impossible {...value.impossible} />}
      {value && value.plans.length > 0 && <Plans plans={value.plans} own={value.own.step} />}
    </>
  )
}

function captionOf({ plans, seen, done, own }: SearchAnswer, pending: boolean): string {
  const words = views().search
  if (pending) return words.running(percent(done, 0), count(seen))
  const best = plans[0]
  return best ? words.caption(count(seen), plans.length, seconds(best.step), seconds(own.step)) : words.none
}

type Order = 'step' | 'bytes' | 'word'

function Plans({ plans, own }: { readonly plans: readonly FoundPlan[]; readonly own: number }) {
  const words = views().search
  const [order, sort] = useState<Order>('step')
  const sorted = [...plans].sort((a, b) => (a[order] < b[order] ? -1 : a[order] > b[order] ? 1 : 0))
  const [plan, step, used, against] = words.head
  const columns: readonly (readonly [Order, string])[] = [
    ['word', plan],
    ['step', step],
    ['bytes', used],
  ]
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class="scroll" aria-label={words.plans} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(([name, title]) => (
              <th key={name} scope="col" aria-sort={order === name ? 'ascending' : 'none'}>
                <button type="button" class="quiet" aria-label={words.sort(title)} onClick={() => sort(name)}>
                  {`${title}${order === name ? ' ↑' : ''}`}
                </button>
              </th>
            ))}
            <th scope="col">{against}</th>
            <th scope="col">{words.take}</th>
          </tr>
        </thead>
        <tbody>
          {sorted.map(one => (
            <tr key={one.word}>
              <th scope="row">
                <code>{one.word}</code>
                {one.onFront && <small> {words.front}</small>}
              </th>
              <td class="number">{`${one.exact ? '' : '≈ '}${seconds(one.step)}`}</td>
              <td class="number">{bytes(one.bytes)}</td>
              <td class="number">{signed(one.step / own - 1)}</td>
              <td>
                <button type="button" class="quiet" onClick={() => settle({ ...one.link, tab: undefined })}>
                  {words.take}
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

function Impossible({ why, instead }: NonNullable<SearchAnswer['impossible']>) {
  const words = views().search
  return (
    <section class="impossible">
      <p>{why[language.value]}</p>
      <h2>{words.instead}</h2>
      <ul class="chips">
        {instead.map(one => (
          <li key={one.change.en}>
            <button type="button" class="quiet chip-button" onClick={() => settle(one.link)}>
              <strong>{one.change[language.value]}</strong>
              <span>{`≈ ${seconds(one.step)}`}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  )
}
