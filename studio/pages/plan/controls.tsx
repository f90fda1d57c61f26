/** The controls of a plan: what is possible can be chosen, what is not is struck out, with the reason. */
import type { Problem } from 'lockstep'
import { useEffect, useRef, useState } from 'preact/hooks'
import { language } from '../../base/language.js'
import { Choice, Steps, Toggle } from '../../parts/controls.js'
import { isSaidZh, problemZh } from '../../text/problems.zh.js'
import type { Control, Offer, Choice as Option } from '../../work/plan/choices.js'
import { choose, isOffered, move, togglePin } from './state.js'
import { named, text } from './text.js'

interface ControlsProps {
  readonly offer: Offer
  readonly pins: readonly string[]
}

/** What every plan decides; what few do stands behind it, folded. */
export function Controls({ offer, pins }: ControlsProps) {
  const words = text()
  const { controls } = offer
  const [usual, rare] = [controls.filter(one => !one.rare), controls.filter(one => one.rare)]
  return (
    <>
      <Some controls={usual} offer={offer} pins={pins} />
      {rare.length > 0 && (
        <details class="more">
          <summary>{words.more}</summary>
          <Some controls={rare} offer={offer} pins={pins} />
        </details>
      )}
    </>
  )
}

/** In one line, for what has room for no more. */
const reasonOf = (refused: Problem): string =>
  isSaidZh(refused) && language.value === 'zh' ? problemZh(refused) : refused.message

interface SomeProps extends ControlsProps {
  readonly controls: readonly Control[]
}

function Some({ controls, offer, pins }: SomeProps) {
  const words = text()
  const refused = controls.flatMap(({ field, choices }) =>
    choices.flatMap(({ value, refused }) => (refused ? [{ field, value, refused }] : [])),
  )
  return (
    <>
      {controls.map(control => (
        <One key={control.field} {...{ offer, control }} pinned={pins.includes(control.field)} />
      ))}
      {refused.length > 0 && (
        <details class="refused">
          <summary>{words.struck(refused.length)}</summary>
          <ul>
            {refused.map(({ field, value, refused }) => (
              <li key={`${field} ${value}`}>
                <strong>{`${named(words.fields, field)} ${value}`}</strong>{' '}
                {language.value === 'zh' && <span>{problemZh(refused)} </span>}
                {(language.value === 'en' || !isSaidZh(refused)) && (
                  <span lang="en">{`${refused.message}${refused.suggestion ? `; ${refused.suggestion}` : ''}`}</span>
                )}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  )
}

const counted = ['tp', 'cp', 'pp', 'dp', 'ep', 'microbatches', 'zero', 'chunks']
const pinnable = ['tp', 'cp', 'pp', 'dp', 'microbatches']

interface OneProps {
  readonly offer: Offer
  readonly control: Control
  readonly pinned: boolean
}

function One({ offer, control, pinned }: OneProps) {
  const label = named(text().fields, control.field)
  if (counted.includes(control.field)) return <Counted {...{ offer, control, label, pinned }} />
  const { value, choices } = control
  const other = choices.find(choice => choice.value !== value)
  if (value === 'true' || value === 'false')
    return (
      <Toggle
        label={label}
        value={value === 'true'}
        change={() => other && choose(offer, control, other.value)}
        {...(other?.refused && { note: <s title={reasonOf(other.refused)}>✕</s> })}
      />
    )
  return (
    <Choice
      label={label}
      options={choices.map(({ value, refused }) => ({
        value,
        label: refused ? `${value} ✕` : value,
        disabled: refused !== undefined,
      }))}
      value={value}
      change={chosen => choose(offer, control, chosen)}
    />
  )
}

interface CountedProps extends OneProps {
  readonly label: string
}

/**
 * A slider over what is possible. While it moves it keeps the steps it began with: those of the next plan may be others. It stands where
 * it was moved to, and does not wait for the answer.
 */
function Counted({ offer, control, label, pinned }: CountedProps) {
  const words = text()
  const held = useRef<readonly [Offer, Control] | undefined>(undefined)
  const [moved, show] = useState<string>()
  useEffect(() => {
    if (!held.current || control.value === moved) show(undefined)
  }, [control])
  const { choices } = held.current?.[1] ?? control
  return (
    <div class="counted">
      <Steps
        label={label}
        steps={choices.filter(({ link }) => link).map(({ value }) => value)}
        value={moved ?? control.value}
        change={value => {
          held.current ??= [offer, control]
          show(value)
          const link = choices.find(choice => choice.value === value)?.link
          if (link && isOffered(...held.current)) move(link)
        }}
        settle={value => {
          const [offered, one] = held.current ?? [offer, control]
          held.current = undefined
          choose(offered, one, value)
        }}
        note={<Values choices={control.choices} value={control.value} />}
      />
      {pinnable.includes(control.field) && (
        <button
          type="button"
          class="quiet pin"
          aria-pressed={pinned}
          aria-label={words.pin(control.field)}
          title={words.pin(control.field)}
          onClick={() => togglePin(control.field)}
        >
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M5 2h6l-1 5 2 2v1H8.6L8 15l-.6-5H4V9l2-2z" />
          </svg>
        </button>
      )}
    </div>
  )
}

/** All values in order; those that cannot be are struck out. Long runs of them at the end are one. */
function Values({ choices, value }: { readonly choices: readonly Option[]; readonly value: string }) {
  return (
    <span class="values">
      {choices.slice(0, 20).map(choice =>
        choice.refused ? (
          <s key={choice.value} title={reasonOf(choice.refused)}>
            {choice.value}
          </s>
        ) : (
          <span key={choice.value} class={choice.value === value ? 'now' : undefined}>
            {choice.value}
          </span>
        ),
      )}
    </span>
  )
}
