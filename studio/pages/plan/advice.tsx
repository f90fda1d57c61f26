/** Why the plan takes what it takes, and what to try next. Every suggestion applies itself; Back undoes it. */
import { useMemo } from 'preact/hooks'
import { language } from '../../base/language.js'
import { bytes, seconds, signed } from '../../base/numbers.js'
import { useLong } from '../../work/long.js'
import type { Suggestion } from '../../work/plan/advice.js'
import type { Link } from '../../work/plan/link.js'
import type { Said } from '../../work/plan/why.js'
import { settle } from './state.js'
import { text } from './text.js'

interface AdviceProps {
  readonly link: Link
  readonly why: readonly Said[]
  /** Exact, of this link. */
  readonly step: number | undefined
  /** It is on its way, and has the cores to itself. */
  readonly compiling: boolean
}

export function Advice({ link, why, step, compiling }: AdviceProps) {
  const words = text()
  const advice = useLong(['plan-advice', 'advice'], step === undefined ? undefined : { link, step })
  const pending = compiling || advice.pending
  const value = step === undefined && !compiling ? undefined : advice.value
  // A slider that moves makes them older, not others.
  const chips = useMemo(() => value && <Chips all={value.try.slice(0, 8)} now={value.step} />, [value, words])
  const not = useMemo(() => value && value.not.length > 0 && <Not all={value.not} now={value.step} />, [value, words])
  const reasons = useMemo(() => <Why why={why} />, [why, words])
  const isOld = JSON.stringify(value?.link) !== JSON.stringify(link)
  return (
    <section class="advice" aria-busy={pending}>
      {(value || pending) && <h2>{words.try}</h2>}
      <div class={isOld ? 'pending' : undefined} inert={isOld}>
        {value && value.try.length === 0 && !pending && <p>{words.tryNone}</p>}
        {chips}
        {pending && <p class="quiet-note">{words.trying}</p>}
        {not}
      </div>
      <h2>{words.why}</h2>
      <p>
        <small>{step === undefined ? words.whyNote.estimate : words.whyNote.exact}</small>
      </p>
      {reasons}
    </section>
  )
}

const Why = ({ why }: Pick<AdviceProps, 'why'>) => (
  <ul class="why">
    {why.map(({ topic, text }) => (
      <li key={text.en}>
        {topic && <code>{topic}</code>}
        <span>{text[language.value]}</span>
      </li>
    ))}
  </ul>
)

const Chips = ({ all, now }: SuggestionsProps) => (
  <ul class="chips">
    {all.map(one => (
      <Chip key={one.change[language.value]} one={one} now={now} />
    ))}
  </ul>
)

interface SuggestionsProps {
  readonly all: readonly Suggestion[]
  readonly now: number
}

interface ChipProps {
  readonly one: Suggestion
  readonly now: number
}

function Chip({ one, now }: ChipProps) {
  const words = text()
  const step = one.exact?.step ?? one.step
  const { link } = one
  return (
    <li>
      <button
        type="button"
        class="quiet chip-button"
        disabled={!link}
        data-step={one.exact?.step}
        title={one.reason[language.value]}
        onClick={() => link && settle(link)}
      >
        <strong>{one.change[language.value]}</strong>
        {step !== undefined && (
          <span>{`${one.exact ? '' : '≈ '}${signed(step / now - 1)} · ${words.predicted(seconds(step))}`}</span>
        )}
        {one.exact && !one.exact.fits && <span class="bad">{words.unfit(bytes(one.exact.bytes))}</span>}
      </button>
    </li>
  )
}

function Not({ all, now }: SuggestionsProps) {
  const words = text()
  return (
    <details class="not">
      <summary>{`${words.not} (${all.length})`}</summary>
      <ul>
        {all.map(one => (
          <li key={one.change[language.value]}>
            {one.link ? (
              <button type="button" class="quiet" onClick={() => one.link && settle(one.link)}>
                {one.change[language.value]}
              </button>
            ) : (
              <s>{one.change[language.value]}</s>
            )}{' '}
            {one.exact ? signed(one.exact.step / now - 1) : one.verdict[language.value]}; {one.reason[language.value]}
          </li>
        ))}
      </ul>
    </details>
  )
}
