/** What a job says of its data and of its learning rate, checked against the model. What files hold is seen when they are read. */
import { type Problem, shorten } from '../base/index.js'
import type { ModelConfig } from '../model/index.js'
import { cooldownSteps } from './learning-rate.js'
import { advised, refused } from './phrases.js'
import type { Rule } from './rule.js'
import type { Data } from './schema.js'

/** Byte-level tokenizers begin with one token per byte; ours ends a text with one more. */
export const bytesInVocab = 256

/** What tokens are made from: text, ready-made ids, or numbers by counter. */
export const formOf = ({ source }: Data): 'text' | 'ids' | 'synthetic' =>
  source === 'synthetic' ? 'synthetic' : source.endsWith('.bin') ? 'ids' : 'text'

/** The equation every token must obey, wherever the tokens come from. */
export function vocabProblems(model: ModelConfig, tokens: number, of: string): Problem[] {
  if (model.family === 'mlp' || model.vocab >= tokens) return []
  return [refused('model.vocab', 'data/vocab', { vocab: model.vocab, tokens, of })]
}

/** The synthetic sequences count by strides: the first label cannot be known, and is not counted. */
export const labels: Rule = function* ({ model, data, training: { seq } }) {
  if (model.family !== 'mlp' && seq === 1 && (!data || formOf(data) === 'synthetic'))
    yield refused('training.seq', 'data/labels')
}

export const data: Rule = function* ({ model, data }) {
  if (!data) return
  const form = formOf(data)
  if (model.family === 'mlp' && form !== 'synthetic')
    yield refused('data.source', 'data/family/vectors', { source: shorten(data.source, 60) })
  else if (form === 'text') yield* tokenizer(model, data)
  yield* pairs(data, form)
  yield* documents(model, data)
  if (data.routing !== undefined && !(model.family === 'llama' && model.moe))
    yield refused('data.routing', 'data/family/experts')
  if (data.vocab !== undefined && !(form === 'text' && data.tokenizer === 'bpe'))
    yield advised('data.vocab', 'data/no-effect/vocab')
  if (data.width !== 'u16' && form !== 'ids') yield advised('data.width', 'data/no-effect/width')
}

function* pairs({ pairs, documents, source }: Data, form: 'text' | 'ids' | 'synthetic'): Iterable<Problem> {
  if (!pairs) return
  if (form !== 'text') yield refused('data.pairs', 'data/pairs/lines', { source: shorten(source, 60) })
  if ((documents?.pad ?? 1) > 1) yield refused('data.documents.pad', 'data/pairs/pad')
}

function* documents(model: ModelConfig, data: Data): Iterable<Problem> {
  if (!data.documents) return
  const path = 'data.documents'
  const { eod } = data.documents
  if (model.family === 'mlp') yield refused(path, 'data/family/documents')
  else if (eod === 'eos' && formOf(data) !== 'text')
    yield refused(`${path}.eod`, 'data/documents/end', { source: shorten(data.source, 60) })
  else if (eod !== 'eos' && eod >= model.vocab)
    yield refused(`${path}.eod`, 'data/documents/separator', {
      ...{ eod, vocab: model.vocab, near: model.vocab - 1 },
    })
}

function* tokenizer(model: ModelConfig, { tokenizer, vocab }: Data): Iterable<Problem> {
  if (tokenizer === 'bytes') yield* vocabProblems(model, bytesInVocab, 'tokenizer bytes')
  if (tokenizer !== 'bpe' || model.family === 'mlp') return
  const least = bytesInVocab + 1
  if (vocab !== undefined && vocab < least) yield refused('data.vocab', 'data/vocab/bpe', { least, vocab })
  else yield* vocabProblems(model, vocab ?? least, 'tokenizer bpe')
}

export const optimizerSettings: Rule = function* ({ training: { optimizer } }) {
  if (optimizer.kind !== 'sgd') return
  const { momentum, nesterov = false, dampening = 0 } = optimizer
  const path = 'training.optimizer'
  if (nesterov && momentum === 0) yield refused(`${path}.nesterov`, 'training/optimizer/momentum')
  if (dampening > 0 && momentum === 0) yield refused(`${path}.dampening`, 'training/optimizer/momentum')
  else if (nesterov && dampening > 0) yield refused(`${path}.dampening`, 'training/optimizer/nesterov')
}

export const learningRate: Rule = function* ({ training: { optimizer, lrSchedule, steps } }) {
  const { kind, warmup, warmupFrom, minLr, decaySteps: end = steps, cooldown } = lrSchedule
  const path = 'training.lrSchedule'
  const idle = { minLr: kind === 'constant' && minLr > 0, cooldown: kind !== 'wsd' && cooldown !== undefined }
  const last = cooldownSteps({ cooldown, end })
  const { lr } = optimizer
  if (minLr > lr) yield refused(`${path}.minLr`, 'training/lr/least', { minLr, lr, near: lr / 10 })
  for (const [key, has] of Object.entries(idle))
    if (has) yield advised(`${path}.${key}`, 'training/lr/no-effect', { kind })
  if (warmupFrom !== undefined && warmupFrom > lr)
    yield refused(`${path}.warmupFrom`, 'training/lr/from', { warmupFrom, lr })
  if (kind === 'wsd' && warmup + last > end)
    yield refused(`${path}.cooldown`, 'training/lr/cooldown', {
      ...{ warmup, cooldown: last, steps: end, near: Math.max(0, Math.floor((end - warmup) / 10)) },
    })
  if (warmup > steps) yield advised(`${path}.warmup`, 'training/lr/warmup', { warmup, steps, lr })
}
