/** Sentences in JSON: the English that is printed; of a reading also the code and the values, so that nobody takes text apart. */
import type { Fit } from '../../estimate/index.js'
import {
  type Impossible,
  isPriced,
  type JudgedChoice,
  type Remark,
  showSentence,
  type Verdict,
} from '../../search/index.js'

export const readingLines = (reading: readonly Remark[]): string[] =>
  reading.map(one => `${one.topic.padEnd(7)} ${showSentence(one)}`)

/** A remark as it is printed, beside what it is made of. */
type PrintedRemark = Remark & { readonly text: string }

export const readingJson = (reading: readonly Remark[]): PrintedRemark[] =>
  reading.map(one => ({ ...one, text: showSentence(one) }))

export const fitJson = ({ condition, ...fit }: Fit) => ({
  ...fit,
  ...(condition && { condition: showSentence(condition) }),
})

export function verdictJson(verdict: Verdict) {
  if (verdict.kind === 'impossible') return { ...verdict, why: showSentence(verdict.why) }
  return verdict.kind === 'unfit' ? { ...verdict, fit: fitJson(verdict.fit) } : verdict
}

export const choiceJson = (one: JudgedChoice) => (isPriced(one) ? one : { ...one, why: showSentence(one.why) })

export const impossibleJson = ({ why, instead, ...impossible }: Impossible) => ({
  ...{ ...impossible, why: showSentence(why) },
  instead: instead.map(({ change, ...one }) => ({ ...one, change: showSentence(change) })),
})
