/** What a reader can change. Moving shows at once (`change`), letting go settles (`settle`): pages replace, then push, their link. */
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useState } from 'preact/hooks'

interface FieldProps {
  readonly label: string
  readonly children: (id: string) => ComponentChildren
  readonly note?: ComponentChildren
}

export function Field({ label, children, note }: FieldProps) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id)}
      {note && <small>{note}</small>}
    </div>
  )
}

export interface StepsProps<T> {
  readonly label: string
  /** What can be chosen, in order. */
  readonly steps: readonly T[]
  readonly value: T
  readonly show?: (value: T) => string
  readonly change: (value: T) => void
  readonly settle?: (value: T) => void
  readonly note?: ComponentChildren
}

/** A slider over values that are possible. */
export function Steps<T>({ label, steps, value, show = String, change, settle, note }: StepsProps<T>) {
  const at = Math.max(0, steps.indexOf(value))
  const step = (event: Event) => steps[Number((event.currentTarget as HTMLInputElement).value)] as T // an index of steps
  return (
    <Field label={label} note={note}>
      {id => (
        <span class="steps">
          <input
            id={id}
            type="range"
            min={0}
            max={Math.max(0, steps.length - 1)}
            step={1}
            value={at}
            aria-valuetext={show(value)}
            onInput={event => change(step(event))}
            onChange={event => settle?.(step(event))}
          />
          <output for={id}>{show(value)}</output>
        </span>
      )}
    </Field>
  )
}

export interface ChoiceProps<T extends string> {
  readonly label: string
  readonly options: readonly { readonly value: T; readonly label: string; readonly disabled?: boolean }[]
  readonly value: T
  readonly change: (value: T) => void
  readonly note?: ComponentChildren
}

export function Choice<T extends string>({ label, options, value, change, note }: ChoiceProps<T>) {
  return (
    <Field label={label} note={note}>
      {id => (
        <select id={id} value={value} onChange={event => change(event.currentTarget.value as T)}>
          {options.map(({ value, label, disabled }) => (
            <option key={value} value={value} disabled={disabled ?? false}>
              {label}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

export interface NumberProps {
  readonly label: string
  /** Undefined: nothing is typed in yet. */
  readonly value: number | undefined
  readonly min?: number | undefined
  readonly max?: number | undefined
  readonly step?: number | 'any'
  readonly change: (value: number) => void
  readonly note?: ComponentChildren
}

interface NumberInputProps extends Pick<NumberProps, 'value' | 'min' | 'max' | 'step' | 'change'> {
  readonly id?: string
  readonly 'aria-label'?: string
  readonly 'data-before'?: string
}

/**
 * A number being typed in: it stays as it is typed until it is handed on, whatever is drawn anew meanwhile. What is no number, or outside
 * its limits, is not handed on.
 */
export function NumberInput({ value, change, ...others }: NumberInputProps) {
  const [typed, type] = useState<string>()
  useEffect(() => type(undefined), [value])
  const hand = ({ currentTarget }: { readonly currentTarget: HTMLInputElement }) => {
    if (!currentTarget.validity.valid || currentTarget.value === '') return
    change(currentTarget.valueAsNumber)
    type(undefined)
  }
  const keep = ({ currentTarget }: { readonly currentTarget: HTMLInputElement }) => type(currentTarget.value)
  return <input {...others} type="number" value={typed ?? value} onInput={keep} onChange={hand} />
}

export function NumberField({ label, value, min, max, step = 1, change, note }: NumberProps) {
  return (
    <Field label={label} note={note}>
      {id => <NumberInput {...{ id, value, min, max, step, change }} />}
    </Field>
  )
}

interface ToggleProps {
  readonly label: string
  readonly value: boolean
  readonly change: (value: boolean) => void
  readonly note?: ComponentChildren
}

export function Toggle({ label, value, change, note }: ToggleProps) {
  const id = useId()
  return (
    <div class="field toggle">
      <input id={id} type="checkbox" checked={value} onChange={event => change(event.currentTarget.checked)} />
      <label for={id}>{label}</label>
      {note && <small>{note}</small>}
    </div>
  )
}
