/** The catalog of devices and their networks, each with its sources. */

import { language } from '../../base/language.js'
import { bytes, fixed, perSecond, short } from '../../base/numbers.js'
import { linkTo } from '../../base/router.js'
import { useTitle } from '../../base/title.js'
import { Bars } from '../../parts/bars.js'
import { Figure } from '../../parts/figure.js'
import { listed } from '../../parts/names.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import type { ClusterFacts } from '../../work/clusters.js'
import type { PageProps } from '../routes.js'
import { text } from './text.js'

export default function Clusters({ rest }: PageProps) {
  const words = text()
  return (
    <article>
      <h1>{words.title}</h1>
      <p class="lead">{words.lead}</p>
      {rest ? <One key={rest} name={rest} /> : <All />}
    </article>
  )
}

const link = (name: string) => linkTo(`clusters${name && `/${name}`}`)

/** Columns of numbers, which stand at the right. */
const numbered = [1, 2, 3, 5]

function All() {
  const words = text()
  const { value, refusal, pending } = useAnswer('fast', ['clusters', 'catalog'], {})
  if (refusal) return <Trouble why={refusal} />
  if (!value) return <p aria-busy={pending}>…</p>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class="scroll catalog" aria-label={words.table} tabIndex={0}>
      <table>
        <caption>{words.tableCaption(value.length)}</caption>
        <thead>
          <tr>
            {[words.device, words.holds, words.bandwidth, words.peak, words.joined, words.price].map((head, n) => (
              <th key={head} scope="col" class={numbered.includes(n) ? 'number' : undefined}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {value.map(cluster => (
            <Row key={cluster.name} cluster={cluster} />
          ))}
        </tbody>
      </table>
    </section>
  )
}

/** A device that is a part of another: what follows the name is said in the reader's language. */
function titled(title: string): string {
  const [name, part] = title.split(', one of its ')
  if (part === undefined || language.value === 'en') return title
  return `${name}（${part.replace(/^72 GPUs$/, '72 张卡之一').replace(/^two dies$/, '两个芯片之一')}）`
}

const arithmetic = (flops: number): string => `${short(flops / 1e12)} TFLOP/s`

function Row({ cluster }: { readonly cluster: ClusterFacts }) {
  const { name, title, memory, bandwidth, peak, links, price } = cluster
  return (
    <tr>
      <th scope="row">
        <a href={link(name)}>{name}</a> <small>{titled(title)}</small>
      </th>
      <td class="number">{bytes(memory)}</td>
      <td class="number">{perSecond(bandwidth)}</td>
      <td class="number">{peak.bf16 === undefined ? '–' : arithmetic(peak.bf16)}</td>
      <td>{listed(links.map(({ kind, size, bandwidth }) => `${kind} ×${size} ${perSecond(bandwidth)}`))}</td>
      <td class="number">{price === undefined ? '–' : `$${fixed(price, 2)}`}</td>
    </tr>
  )
}

function One({ name }: { readonly name: string }) {
  const words = text()
  const { value, refusal, pending } = useAnswer('fast', ['clusters', 'one'], { name })
  useTitle(name)
  if (refusal) return <Trouble why={refusal} />
  if (!value) return <p aria-busy={pending}>…</p>
  const rungs = [
    { label: words.memory, value: value.bandwidth, kind: 'F' },
    ...value.links.map(({ kind, size, bandwidth }) => ({
      label: `${kind} · ${words.devices(size)}`,
      value: bandwidth,
      kind: 'dp',
    })),
  ]
  const speed = perSecond
  const [first, last] = [value.links[0]!, value.links.at(-1)!]
  const caption = words.ladderCaption(
    speed(value.bandwidth),
    speed(first.bandwidth),
    speed(last.bandwidth),
    short(value.bandwidth / last.bandwidth),
  )
  return (
    <>
      <Figure
        title={words.ladder(value.title)}
        caption={caption}
        rows={{ head: [words.level, words.speed], body: rungs.map(({ label, value }) => [label, speed(value)]) }}
      >
        <Bars
          label={caption}
          show={speed}
          bars={rungs.map(({ label, value, kind }) => ({ label, parts: [{ name: '', value, kind }] }))}
        />
      </Figure>
      <h2>{words.sources}</h2>
      <ul lang="en">
        {value.sources.map(source => (
          <li key={source}>{source}</li>
        ))}
      </ul>
      <p class="links">
        <a href={linkTo('plan', { on: `${name}*64` })}>{words.open}</a>
        <a href={link('')}>{words.all}</a>
      </p>
    </>
  )
}
