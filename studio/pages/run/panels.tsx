/** What else there is to see of a run: memory, faults, events, samples, files. */
import type { HealthEvent, Peaks } from 'lockstep'
import { useState } from 'preact/hooks'
import { language } from '../../base/language.js'
import { bytes } from '../../base/numbers.js'
import { type Bar, Bars } from '../../parts/bars.js'
import { Choice } from '../../parts/controls.js'
import { Figure } from '../../parts/figure.js'
import { eventZh } from '../../text/events.zh.js'
import { fault, isLive, keep, type Shown } from './state.js'
import { text } from './text.js'

interface PanelProps {
  readonly run: Shown | undefined
}

type Bytes = Peaks['measured'][number]
type Kind = keyof Bytes
/** In the order in which they are drawn, with their classes of style/parts.css. */
const kinds: readonly (readonly [Kind, string])[] = [
  ['parameters', 'params'],
  ['gradients', 'gradients'],
  ['optimizer', 'optimizer'],
  ['activations', 'activations'],
  ['workspace', 'workspace'],
  ['data', 'other'],
]
const total = (peak: Bytes): number => kinds.reduce((sum, [kind]) => sum + peak[kind], 0)

export function Memory({ run }: PanelProps) {
  const words = text()
  if (!run?.memory) return null
  const { planned, measured, wrong } = run.memory
  const fullest = measured.reduce((most, peak, rank) => (total(peak) > total(measured[most]!) ? rank : most), 0)
  const bar = (label: string, peak: Bytes): Bar => ({
    label,
    parts: kinds.map(([kind, style]) => ({ name: words.memoryKinds[kind], value: peak[kind], kind: style })),
  })
  const rows = kinds.map(([kind]) => [words.memoryKinds[kind], planned[fullest]![kind], measured[fullest]![kind]])
  return (
    <Figure
      title={words.memory}
      caption={
        wrong < 0 ? words.asPlanned(measured.length, bytes(total(measured[fullest]!))) : words.notAsPlanned(wrong)
      }
      rows={{ head: [words.kind, words.planned, words.measuredBytes], body: rows }}
    >
      <Bars
        bars={[bar(words.planned, planned[fullest]!), bar(words.measuredBytes, measured[fullest]!)]}
        show={bytes}
        label={words.memory}
      />
    </Figure>
  )
}

export function Faults({ run }: PanelProps) {
  const words = text()
  const ranks = run?.facts?.ranks ?? 0
  const [chosen, choose] = useState<number>()
  if (!run || !isLive(run) || ranks === 0) return null
  const rank = chosen !== undefined && chosen < ranks ? chosen : ranks - 1
  const all = [
    [words.kill(rank), `kill:rank=${rank}`],
    [words.stall(rank), `stall:rank=${rank},seconds=2`],
    [words.slow(rank), `slow:rank=${rank},factor=3`],
    [words.nan(rank), `nan:rank=${rank}`],
    [words.lr, 'lr:factor=100'],
  ] as const
  return (
    <section class="faults">
      <h2>{words.faults}</h2>
      <div class="controls">
        <Choice
          label={words.faultRank}
          options={Array.from({ length: ranks }, (_, n) => ({ value: String(n), label: String(n) }))}
          value={String(rank)}
          change={value => choose(Number(value))}
        />
        <div class="field buttons">
          {all.map(([label, what]) => (
            <button type="button" key={what} class="quiet" title={`--fault ${what}`} onClick={() => fault(what)}>
              {label}
            </button>
          ))}
        </div>
      </div>
    </section>
  )
}

/** How many there is room for. */
const mostEvents = 30

const shownEvent = (event: HealthEvent): string => {
  const { step, severity, message, advice } = event
  return language.value === 'zh' ? eventZh(event) : `${step} ${severity}: ${message}${advice ? `; ${advice}` : ''}`
}

export function Events({ run }: PanelProps) {
  const words = text()
  if (!run) return null
  const { events, notes } = run
  const all = [...events.slice(-mostEvents).map(shownEvent), ...notes.map(note => note())]
  return (
    <section class="events" aria-live="polite">
      <h2>{words.happens}</h2>
      {all.length === 0 ? (
        <p>{words.quiet}</p>
      ) : (
        <ul>
          {all.map((line, n) => (
            <li key={n}>{line}</li>
          ))}
        </ul>
      )}
    </section>
  )
}

export function Samples({ run }: PanelProps) {
  const words = text()
  if (!run || run.where === undefined) return null
  return (
    <section class="samples">
      <h2>{words.samples}</h2>
      {run.samples.length === 0 ? (
        <p>{words.noSamples}</p>
      ) : (
        <ol>
          {run.samples.map(({ step, text }) => (
            <li key={step}>
              <small>
                {words.step} {step}
              </small>{' '}
              <q lang="en">{text}</q>
            </li>
          ))}
        </ol>
      )}
    </section>
  )
}

const taking = (take: () => void) => (event: Event) => {
  event.preventDefault()
  take()
}

export function Files({ run }: PanelProps) {
  const words = text()
  const makes = run?.where === 'page' && isLive(run) && run.last !== undefined
  if (!run || (run.files.length === 0 && !makes)) return null
  return (
    <section class="files">
      <h2>{words.downloads}</h2>
      {makes && (
        <button type="button" class="quiet" onClick={keep}>
          {words.keep}
        </button>
      )}
      {run.kept !== undefined && <small>{words.keptAt(run.kept)}</small>}
      <ul class="links">
        {run.files.map(({ name, href, take }) => (
          <li key={name}>
            <a href={href} download={name} onClick={take && taking(take)}>
              {name}
            </a>
          </li>
        ))}
      </ul>
    </section>
  )
}
