/**
 * One reading of what Megatron trains for all who write it down: flags of a script, keys of NeMo, Bridge or GPT-NeoX. A term is
 * a flag of Megatron; `paths` says where a configuration writes it, `defaults` what holds where it does not.
 */
import { describeValue } from '../../base/index.js'
import { booleanOf, numberOf, type Reading, unknownValue } from '../reading.js'

export interface Defaults {
  /** Whose defaults these are, with the release. */
  readonly of: string
  /** undefined: whoever leaves it out leaves it open. */
  readonly value: (term: string) => string | number | boolean | undefined
}

export class Terms {
  readonly reading: Reading
  readonly defaults: Defaults
  readonly #pathOf: (term: string) => string

  readonly #values: ReadonlyMap<string, unknown> | undefined

  /** `values`: what terms are, where a file writes them in other words. */
  constructor(
    reading: Reading,
    pathOf: (term: string) => string,
    defaults: Defaults,
    values?: ReadonlyMap<string, unknown>,
  ) {
    this.reading = reading
    this.#pathOf = pathOf
    this.defaults = defaults
    this.#values = values
  }

  path(term: string): string {
    return this.#pathOf(term)
  }
  raw(term: string): unknown {
    const value = this.#values ? this.#values.get(term) : this.reading.raw(this.path(term))
    return value === null ? undefined : value
  }
  has(term: string): boolean {
    return this.raw(term) !== undefined
  }
  whole(term: string, least = 0): number | undefined {
    const value = this.number(term)
    if (value === undefined || (Number.isSafeInteger(value) && value >= least)) return value
    return this.#wrong(term, `an integer of at least ${least}`)
  }
  number(term: string): number | undefined {
    return this.has(term) ? (numberOf(this.raw(term)) ?? this.#wrong(term, 'a number')) : undefined
  }
  word(term: string): string | undefined {
    const value = this.raw(term)
    return value === undefined ? undefined : typeof value === 'object' ? this.#wrong(term, 'a word') : String(value)
  }
  /** An enumerated flag: what its value stands for. Another value is reported as not carried, with what happens instead. */
  choice<T>(term: string, meanings: Readonly<Record<string, T>>, instead: string): T | undefined {
    const word = this.word(term)
    if (word === undefined || Object.hasOwn(meanings, word)) return word === undefined ? undefined : meanings[word]
    this.drop(term, unknownValue(word, meanings, instead))
    return undefined
  }
  /** Absent is false. */
  is(term: string): boolean {
    return this.has(term) && (booleanOf(this.raw(term)) ?? this.#wrong(term, 'true or false')) === true
  }
  list(term: string): readonly unknown[] | undefined {
    const value = this.raw(term)
    return Array.isArray(value) ? value : value === undefined ? undefined : [value]
  }
  #wrong(term: string, wanted: string): undefined {
    this.refuse(term, `expected ${wanted}, got ${describeValue(this.raw(term))}`)
  }

  carry(term: string, field: string, value: unknown, message = ''): void {
    this.reading.carry(this.path(term), field, value, message)
  }
  derive(term: string, field: string, value: unknown, equation: string): void {
    this.reading.derive(this.path(term), field, value, equation)
  }
  drop(term: string, message: string): void {
    this.reading.drop(this.path(term), message)
  }
  refuse(term: string, message: string): void {
    this.reading.refuse(this.path(term), message)
  }
  /** It was read, and became part of what another note says. */
  read(...terms: readonly string[]): void {
    this.reading.seen(...terms.map(term => this.path(term)))
  }

  /** What the framework takes where nothing is said; reported once, with its release. */
  usual(term: string, field?: string): number | undefined {
    const value = this.defaults.value(term)
    if (typeof value !== 'number') return undefined
    if (field !== undefined) this.reading.assume(this.path(term), field, value, `the default of ${this.defaults.of}`)
    return value
  }

  /** A number that becomes a field as it is, or by default. */
  numeric(term: string, field: string, least?: number): number | undefined {
    const given = least === undefined ? this.number(term) : this.whole(term, least)
    if (given === undefined) return this.has(term) ? undefined : this.usual(term, field)
    this.carry(term, field, given)
    return given
  }
}
