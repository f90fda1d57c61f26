/** The controls of a table of knobs: a slider for numbers, a list for words, a box for yes and no. */
import type { BadValue, Chosen, Knobs, KnobTable, KnobValue } from '../base/knobs.js'
import { defineText } from '../base/language.js'
import { Choice, Steps, Toggle } from './controls.js'

const text = defineText(
  {
    bad: ({ name, said, values, taken }: BadValue) =>
      `The link says ${name}=${said}, which is none of ${values.join(', ')}; ${taken} is shown instead.`,
  },
  {
    bad: ({ name, said, values, taken }: BadValue) =>
      `链接里写的是 ${name}=${said}，可选的只有 ${values.join('、')}；这里按 ${taken} 显示。`,
  },
)

/** What stands beside a knob, and how its values are written. */
export interface KnobLabel<T> {
  readonly label: string
  readonly show?: (value: T) => string
  readonly note?: string
}

export type KnobLabels<K extends KnobTable> = { readonly [N in keyof K]: KnobLabel<Chosen<K>[N]> }

interface ControlsProps<K extends KnobTable> {
  readonly knobs: Knobs<K>
  readonly labels: KnobLabels<K>
}

export function Controls<K extends KnobTable>({ knobs, labels }: ControlsProps<K>) {
  const names = Object.keys(knobs.table).filter(name => !knobs.hidden.has(name))
  const words = text()
  return (
    <>
      {knobs.bad.length > 0 && (
        <ul class="trouble" role="alert">
          {knobs.bad.map(bad => (
            <li key={bad.name}>{words.bad(bad)}</li>
          ))}
        </ul>
      )}
      {names.length > 0 && (
        <div class="controls">
          {names.map(name => (
            <Control key={name} name={name} knobs={knobs as unknown as Knobs<KnobTable>} label={labels[name]!} />
          ))}
        </div>
      )}
    </>
  )
}

interface ControlProps {
  readonly name: string
  readonly knobs: Knobs<KnobTable>
  readonly label: KnobLabel<never>
}

function Control({ name, knobs, label: { label, show, note } }: ControlProps) {
  const { values } = knobs.table[name]!
  const value = knobs.chosen[name]!
  const set = (next: KnobValue, settled: boolean) => knobs.set({ [name]: next }, settled)
  const written = (show ?? String) as (value: KnobValue) => string // its values are this knob's
  if (typeof value === 'boolean')
    return <Toggle label={label} value={value} change={next => set(next, true)} note={note} />
  if (typeof value === 'number')
    return (
      <Steps
        {...{ label, steps: values, value: value as KnobValue, show: written, note }}
        change={next => set(next, false)}
        settle={next => set(next, true)}
      />
    )
  return (
    <Choice
      label={label}
      options={values.map(each => ({ value: String(each), label: written(each) }))}
      value={value}
      change={next => set(next, true)}
      note={note}
    />
  )
}
