/**
 * A claim of the course notes, settled by running: which numbers decide it, what they must be for it to hold, and one sentence
 * that says so. Numbers come out of the core alone; what they are held against is what the notes say.
 */
import type { Lab } from './lab.js'
import type { LearnPage } from './pages.js'
import { type Shown, shownAs, type Unit } from './units.js'

/** `depends`: true of some plans, devices or recipes and false of others; the sentence says of which. */
export type Verdict = 'yes' | 'no' | 'depends'

export interface Words {
  readonly en: string
  readonly zh: string
}

export type Values<Name extends string = string> = Readonly<Record<Name, number>>

export interface Claim {
  readonly id: string
  /** Sections of the notes: a letter for the set, then the section. */
  readonly notes: readonly string[]
  /** The learn page it belongs to. */
  readonly page: LearnPage
  /** The notes contradict each other here, or what runs. */
  readonly disputed: boolean
  /** What is claimed. */
  readonly text: Words
  readonly units: Readonly<Record<string, Unit>>
  readonly numbers: (lab: Lab) => Values
  readonly holds: (values: Values) => Verdict
  /** What came out, with the numbers. */
  readonly say: (values: Values) => Words
  /** Shows the same in a terminal. */
  readonly command: string
}

interface ClaimInput<Name extends string> extends Omit<Claim, 'units' | 'numbers' | 'holds' | 'say' | 'disputed'> {
  readonly disputed?: true
  readonly units: Readonly<Record<Name, Unit>>
  readonly numbers: (lab: Lab) => Values<Name>
  readonly holds: (values: Values<Name>) => Verdict
  /** Gets each number written out in its unit, in the language that is taken of what it says. */
  readonly say: (shown: Shown<Name>) => Words
}

export const claim = <Name extends string>(input: ClaimInput<Name>): Claim => ({
  ...input,
  disputed: input.disputed ?? false,
  // Values are those of `numbers`, which has every name.
  holds: values => input.holds(values as Values<Name>),
  say: values => {
    const said = (language: 'en' | 'zh') => input.say(shownAs(input.units, values as Values<Name>, language))[language]
    return { en: said('en'), zh: said('zh') }
  },
})

export const yesIf = (holds: boolean): Verdict => (holds ? 'yes' : 'no')

/** Within a share of what the notes say. */
export const isNear = (value: number, said: number, share: number): boolean => Math.abs(value - said) <= share * said

export interface Settled {
  readonly id: string
  readonly values: Values
  readonly verdict: Verdict
  readonly sentence: Words
}

export function settle(claim: Claim, lab: Lab): Settled {
  const values = claim.numbers(lab)
  return { id: claim.id, values, verdict: claim.holds(values), sentence: claim.say(values) }
}
