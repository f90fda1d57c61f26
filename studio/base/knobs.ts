/**
 * What a reader can choose on a page, as a table of typed values that live in the link: `?zero=3&ranks=64`. A value that is not one of
 * the table's is named to the reader and the usual one is taken; what is usual is left out of the link.
 */
import { place, setQuery } from './router.js'

export type KnobValue = string | number | boolean

export interface Knob<T extends KnobValue = KnobValue> {
  /** What can be chosen, in order. */
  readonly values: readonly T[]
  readonly usual: T
}

export type KnobTable = Readonly<Record<string, Knob>>
export type Chosen<K extends KnobTable> = { readonly [N in keyof K]: K[N] extends Knob<infer T> ? T : never }

export const oneOf = <const T extends KnobValue>(values: readonly T[], usual: NoInfer<T> = values[0]!): Knob<T> => ({
  values,
  usual,
})
export const yesNo = (usual = false): Knob<boolean> => ({ values: [false, true], usual })

/** A value of a link that its knob does not have. */
export interface BadValue {
  readonly name: string
  readonly said: string
  readonly values: readonly string[]
  readonly taken: string
}

export interface Knobs<K extends KnobTable> {
  readonly table: K
  readonly chosen: Chosen<K>
  readonly bad: readonly BadValue[]
  /** Names that the link hides, so that a teacher can fix them. */
  readonly hidden: ReadonlySet<string>
  /** Moving replaces the link; `settled`, Back leads here again. */
  readonly set: (changes: Partial<Chosen<K>>, settled?: boolean) => void
}

const wordOf = (value: KnobValue): string => (typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value))

/** Call it inside a component: it is drawn again when the link changes. */
export function readKnobs<const K extends KnobTable>(table: K): Knobs<K> {
  const { query } = place.value
  const bad: BadValue[] = []
  const chosen = Object.entries(table).map(([name, { values, usual }]) => {
    const said = query[name]
    const found = values.find(value => wordOf(value) === said)
    if (said !== undefined && found === undefined)
      bad.push({ name, said, values: values.map(wordOf), taken: wordOf(usual) })
    return [name, found ?? usual]
  })
  return {
    table,
    chosen: Object.fromEntries(chosen) as Chosen<K>, // a value of its own knob for every name
    bad,
    hidden: new Set((query.hide ?? '').split(',').filter(Boolean)),
    set: (changes, settled = false) => setQuery(asQuery(table, changes), settled),
  }
}

function asQuery<K extends KnobTable>(table: K, changes: Partial<Chosen<K>>): Record<string, string | undefined> {
  const entries = Object.entries(changes as Record<string, KnobValue>) // names of the table
  return Object.fromEntries(
    entries.map(([name, value]) => [name, value === table[name]?.usual ? undefined : wordOf(value)]),
  )
}
