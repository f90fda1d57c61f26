/** What cp, its kind of attention and the model's sizes say together. */
import { divisorsNear, either, error, type Problem, roundUp } from '../base/index.js'
import type { ModelConfig } from '../model/index.js'
import { advised } from './phrases.js'
import { contextOf, headSplit, type Rule } from './rule.js'
import type { Plan } from './schema.js'

const refuse = (field: string, message: string, suggestion: string): Problem =>
  error('plan/indivisible', `plan.${field}`, message, suggestion)

/** A sequence that cannot be cut in so many ways. */
const uneven = (
  field: string,
  [seq, ways]: readonly [seq: number, ways: number],
  message: string,
  suggestion: string,
): Problem =>
  error({ code: 'plan/indivisible', values: { what: 'seq', size: seq, ways } }, `plan.${field}`, message, suggestion)

export const context: Rule = function* ({ model, training: { seq }, plan }) {
  const { cp, zigzag } = plan
  yield* withoutEffect(plan)
  if (cp === 1) return
  const { outer } = contextOf(plan)
  const fitting = `try seq ${roundUp(seq, 2 * cp)}, or cp ${either(divisorsNear(seq, cp))}`
  if (model.family === 'mlp') yield refuse('cp', `cp ${cp} splits a sequence, an mlp has none`, 'leave cp at 1')
  else if (seq % cp !== 0) yield uneven('cp', [seq, cp], `seq ${seq} % cp ${cp} = ${seq % cp}, must be 0`, fitting)
  else if (zigzag === true && outer > 1 && seq % (2 * outer) !== 0) {
    const ranks = outer === cp ? `cp ${cp}` : `ring ${outer}`
    const equation = `seq ${seq} % (2 x ${ranks}) = ${seq % (2 * outer)}, must be 0`
    yield uneven('zigzag', [seq, 2 * outer], equation, `${fitting}, or zigzag: false`)
  }
}

function* withoutEffect({ cp, zigzag, attention }: Plan): Iterable<Problem> {
  const say = (field: string, why: string) => advised(`plan.${field}`, 'plan/no-effect/with', { why })
  if (cp === 1 && zigzag !== undefined) yield say('zigzag', 'cp 1')
  if (cp === 1 && (attention === 'ring' || attention === 'ulysses')) yield say('attention', 'cp 1')
  if (cp > 1 && zigzag && contextOf({ cp, attention }).outer === 1)
    yield say('zigzag', 'ulysses, whose ranks attend to the whole sequence')
}

/** Where each document is cut by itself, each has as many chunks as it takes. */
export const cutDocuments: Rule = function* ({ data, plan }) {
  const { outer } = contextOf(plan)
  if (plan.zigzag !== 'documents' || outer === 1) return
  const say = (path: string, message: string, suggestion: string) =>
    error('plan/documents', path, message, `${suggestion}, or zigzag: true`)
  const fitting = `data: { documents: { pad: ${2 * outer} } }`
  const documents = data?.documents
  if (!documents) return void (yield say('plan.zigzag', 'the data does not tell documents apart', `try ${fitting}`))
  const ranks = outer === plan.cp ? `cp ${outer}` : `ring ${outer}`
  const left = documents.pad % (2 * outer)
  const pad = roundUp(documents.pad, 2 * outer)
  if (left !== 0)
    yield say('data.documents.pad', `pad ${documents.pad} % (2 x ${ranks}) = ${left}, must be 0`, `try pad ${pad}`)
}

/** The ranks of a plan's kind of attention are cp, and those that exchange heads have heads enough. */
export const contextHeads: Rule = function* ({ model, plan }) {
  const { cp, tp, attention } = plan
  const { outer, ulysses } = contextOf(plan)
  if (outer * ulysses !== cp) {
    const equation = `ulysses ${ulysses} x ring ${outer} = ${outer * ulysses}, must be cp ${cp}`
    return void (yield refuse('attention', equation, `try cp ${outer * ulysses}`))
  }
  const sentence = unexchangeable(model, tp, ulysses)
  if (sentence === undefined) return
  const fits = (n: number) => cp % n === 0 && unexchangeable(model, tp, n) === undefined
  const fewer = Array.from({ length: ulysses }, (_, i) => ulysses - i).find(fits) ?? 1
  const instead = fewer > 1 ? `attention { ulysses: ${fewer}, ring: ${cp / fewer} }, ` : 'attention '
  yield refuse(
    typeof attention === 'object' ? 'attention.ulysses' : 'attention',
    sentence,
    `try ${instead}ring or gather`,
  )
}

/** Why the heads that tp leaves a rank cannot be split over so many ranks. */
export function unexchangeable(model: ModelConfig, ranks: number, ulysses: number): string | undefined {
  if (model.family === 'mlp' || ulysses === 1) return undefined
  const { kvHeads } = model
  const { tp, ulysses: split } = headSplit(ranks, ulysses, kvHeads)
  const [own, group] = [kvHeads / tp.kvHeads, model.heads / kvHeads / tp.group]
  if (!Number.isInteger(group) || group % split.group === 0) return undefined // heads that tp does not divide are told there
  const left = ranks > 1 ? ` that tp ${ranks} leaves a rank` : ''
  if (kvHeads === model.heads) return `heads ${own}${left} cannot be split ulysses ${ulysses} ways`
  const factors = `ulysses ${ulysses} = ${split.kvHeads} x ${split.group}`
  return `${factors}: kvHeads ${own}${left} can be split ${split.kvHeads} ways, but heads / kvHeads = ${group} not ${split.group} ways`
}
