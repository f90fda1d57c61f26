/** The controls of a plan: what is possible can be chosen, what is not is struck out, with the reason. */
import type { Problem } from 'lockstep'
import { useEffect, useRef, useState } from 'preact/hooks'
import { language } from '../../base/language.js'
import { Choice, Steps, Toggle } from '../../parts/controls.js'
import { isSaidZh, problemZh } from '../../text/problems.zh.js'
import type { Control, Choice as Option } from '../../work/plan/choices.js'
import { move, settle, togglePin } from './state.js'
import { named, text } from './text.js'

interface ControlsProps {
  readonly controls: readonly Control[]
  readonly pins: readonly string[]
}

/** What every plan decides; what few do stands behind it, folded. */
export function Controls({ controls, pins }: ControlsProps) {
  const words = text()
  const [usual, rare] = [controls.filter(one => !one.rare), controls.filter(one => one.rare)]
  return (
    <>
      <Some controls={usual} pins={pins} />
      {rare.length > 0 && (
        <details class="more">
          <summary>{words.more}</summary>
          <Some controls={rare} pins={pins} />
        </details>
      )}
    </>
  )
}

/** In one line, for what has room for no more. */
const reasonOf = (refused: Problem): string =>
  isSaidZh(refused) && language.value === 'zh' ? problemZh(refused) : refused.message

function Some({ controls, pins }: ControlsProps) {
  const words = text()
  const refused = controls.flatMap(({ field, choices }) =>
    choices.flatMap(({ value, refused }) => (refused ? [{ field, value, refused }] : [])),
  )
  return (
    <>
      {controls.map(control => (
        <One key={control.field} control={control} pinned={pins.includes(control.field)} />
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

function One({ control, pinned }: { readonly control: Control; readonly pinned: boolean }) {
  const label = named(text().fields, control.field)
  if (counted.includes(control.field)) return <Counted control={control} label={label} pinned={pinned} />
  const { value, choices } = control
  const other = choices.find(choice => choice.value !== value)
  if (value === 'true' || value === 'false')
    return (
      <Toggle
        label={label}
        value={value === 'true'}
        change={() => other?.link && settle(other.link)}
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
      change={chosen => {
        const link = choices.find(({ value }) => value === chosen)?.link
        if (link) settle(link)
      }}
    />
  )
}

interface CountedProps {
  readonly control: Control
  readonly label: string
  readonly pinned: boolean
}

/**
 * A slider over what is possible. While it moves it keeps the steps it began with: those of the next plan may be others. It stands where
 * it was moved to, and does not wait for the answer.
 */
function Counted({ control, label, pinned }: CountedProps) {
  const words = text()
  const held = useRef<readonly Option[] | undefined>(undefined)
  const [moved, show] = useState<string>()
  useEffect(() => {
    if (!held.current || control.value === moved) show(undefined)
  }, [control])
  const choices = held.current ?? control.choices
  const linkOf = (value: string) => choices.find(choice => choice.value === value)?.link
  return (
    <div class="counted">
      <Steps
        label={label}
        steps={choices.filter(({ link }) => link).map(({ value }) => value)}
        value={moved ?? control.value}
        change={value => {
          held.current ??= control.choices
          show(value)
          const link = linkOf(value)
          if (link) move(link)
        }}
        settle={value => {
          const link = linkOf(value)
          held.current = undefined
          if (link) settle(link)
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
