/**
 * Documents that are filled up to multiples of `pad` tokens: a sequence holds a whole number of those, and where a plan cuts each
 * document by itself, a document has two chunks for each rank. Pads that are suggested keep both.
 */
import { divisorsNear, lcm, roundUp } from '../base/index.js'
import { ranksWithQueries } from './context.js'
import { refused } from './phrases.js'
import { documentUnit, type Rule } from './rule.js'
import type { Job } from './schema.js'

export const padding: Rule = function* (job) {
  const { data, training, plan } = job
  const { seq } = training
  const pad = data?.documents?.pad ?? 1
  const unit = documentUnit(plan)
  const path = 'data.documents.pad'
  if (seq % pad !== 0)
    yield refused(path, 'data/documents/pad', { seq, pad, rest: seq % pad, fitting: [...seqFor(job), ...padsFor(job)] })
  if (unit > 1 && data?.documents && !data.pairs && pad % unit !== 0)
    yield refused(path, 'plan/documents/pad', {
      ...{ pad, ranks: ranksWithQueries(plan), rest: pad % unit, fitting: [...padsFor(job), 'zigzag: true'] },
    })
}

export const cutDocuments: Rule = function* ({ data, plan }) {
  const unit = documentUnit(plan)
  if (unit === 1) return
  if (data?.pairs) yield refused('plan.zigzag', 'plan/documents/pairs')
  else if (!data?.documents)
    yield refused('plan.zigzag', 'plan/documents/none', { fitting: `data: { documents: { pad: ${unit} } }` })
}

/** The next sequence for such a pad, if ranks can share its documents. */
function seqFor({ data, training: { seq }, plan }: Job): string[] {
  const pad = data?.documents?.pad ?? 1
  return pad % documentUnit(plan) === 0 ? [`seq ${roundUp(seq, lcm(pad, chunksOf(plan)))}`] : []
}

/** The nearest pads for the sequence, or, where ranks cannot share that, for the one that `context` asks for. */
function padsFor({ data, training: { seq }, plan }: Job): string[] {
  const pad = data?.documents?.pad ?? 1
  const unit = documentUnit(plan)
  const whole = seq % unit === 0 ? seq : roundUp(seq, chunksOf(plan))
  return divisorsNear(whole / unit, pad / unit).map(units => `pad ${units * unit}`)
}

/** A sequence of so many chunks is split in every way that cp knows. */
const chunksOf = ({ cp }: Job['plan']): number => (cp === 1 ? 1 : 2 * cp)
