/** What a job says of its data and of its learning rate, checked against the model. What files hold is seen when they are read. */
import { divisorsNear, either, error, type Problem, roundUp, shorten, warning } from '../base/index.js'
import type { ModelConfig } from '../model/index.js'
import { cooldownSteps } from './learning-rate.js'
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
  const message = `model.vocab ${model.vocab} < ${tokens} tokens of ${of}`
  return [error('data/vocab', 'model.vocab', message, `try vocab ${tokens}`)]
}

/** The synthetic sequences count by strides: the first label cannot be known, and is not counted. */
export const labels: Rule = function* ({ model, data, training: { seq } }) {
  if (model.family !== 'mlp' && seq === 1 && (!data || formOf(data) === 'synthetic'))
    yield error(
      'data/labels',
      'training.seq',
      'seq 1 - 1 first label = 0 labels to learn on the synthetic task',
      'try 2',
    )
}

export const data: Rule = function* ({ model, data, training: { seq } }) {
  if (!data) return
  const form = formOf(data)
  if (model.family === 'mlp' && form !== 'synthetic')
    yield error(
      'data/family',
      'data.source',
      `an mlp learns from vectors, but \`${shorten(data.source, 60)}\` holds tokens`,
      'try source synthetic',
    )
  else if (form === 'text') yield* tokenizer(model, data)
  yield* pairs(data, form)
  yield* documents(model, data)
  yield* padding(data, seq)
  if (data.choices !== undefined && !(model.family === 'llama' && model.moe))
    yield error('data/family', 'data.choices', 'the model has no experts to choose', 'leave it out')
  if (data.vocab !== undefined && !(form === 'text' && data.tokenizer === 'bpe'))
    yield warning('data/no-effect', 'data.vocab', 'has no effect unless a text is read with tokenizer bpe')
  if (data.width !== 'u16' && form !== 'ids')
    yield warning('data/no-effect', 'data.width', 'has no effect unless the source is a .bin file')
}

function* pairs({ pairs, documents, source }: Data, form: 'text' | 'ids' | 'synthetic'): Iterable<Problem> {
  if (!pairs) return
  if (form !== 'text')
    yield error('data/pairs', 'data.pairs', `\`${shorten(source, 60)}\` holds no lines of JSON`, 'name a .jsonl file')
  if ((documents?.pad ?? 1) > 1)
    yield error('data/pairs', 'data.documents.pad', 'pairs lie whole in sequences already', 'leave it out')
}

function* documents(model: ModelConfig, data: Data): Iterable<Problem> {
  if (!data.documents) return
  const path = 'data.documents'
  const { separator } = data.documents
  if (model.family === 'mlp')
    yield error('data/family', path, 'an mlp learns from vectors, not from documents', 'leave it out')
  else if (separator === 'end' && formOf(data) !== 'text')
    yield error(
      'data/documents',
      `${path}.separator`,
      `no tokenizer says which token ends a document of source \`${shorten(data.source, 60)}\``,
      'give the id of the token',
    )
  else if (separator !== 'end' && separator >= model.vocab)
    yield error(
      'data/documents',
      `${path}.separator`,
      `separator ${separator} >= model.vocab ${model.vocab}: no token ends a document`,
      `try ${model.vocab - 1}`,
    )
}

function* padding({ documents }: Data, seq: number): Iterable<Problem> {
  const pad = documents?.pad ?? 1
  if (seq % pad !== 0)
    yield error(
      'data/documents',
      'data.documents.pad',
      `seq ${seq} % pad ${pad} = ${seq % pad}, must be 0`,
      `try seq ${roundUp(seq, pad)}, or pad ${either(divisorsNear(seq, pad))}`,
    )
}

function* tokenizer(model: ModelConfig, { tokenizer, vocab }: Data): Iterable<Problem> {
  if (tokenizer === 'bytes') yield* vocabProblems(model, bytesInVocab, 'tokenizer bytes')
  if (tokenizer !== 'bpe' || model.family === 'mlp') return
  const least = bytesInVocab + 1
  if (vocab !== undefined && vocab < least)
    yield error('data/vocab', 'data.vocab', `a bpe has 256 bytes + 1 end of text = ${least} tokens, got ${vocab}`)
  else yield* vocabProblems(model, vocab ?? least, 'tokenizer bpe')
}

export const optimizerSettings: Rule = function* ({ training: { optimizer } }) {
  if (optimizer.kind !== 'sgd') return
  const { momentum, nesterov = false, dampening = 0 } = optimizer
  const path = 'training.optimizer'
  const nothing = 'needs momentum, and momentum is 0'
  if (nesterov && momentum === 0) yield error('training/optimizer', `${path}.nesterov`, nothing, 'try momentum: 0.9')
  if (dampening > 0 && momentum === 0)
    yield error('training/optimizer', `${path}.dampening`, nothing, 'try momentum: 0.9')
  else if (nesterov && dampening > 0)
    yield error(
      'training/optimizer',
      `${path}.dampening`,
      'nesterov looks ahead by the whole gradient',
      'leave one out',
    )
}

export const learningRate: Rule = function* ({ training: { optimizer, lrSchedule, steps } }) {
  const { kind, warmup, warmupFrom, minLr, decaySteps: end = steps, cooldown } = lrSchedule
  const path = 'training.lrSchedule'
  const idle = { minLr: kind === 'constant' && minLr > 0, cooldown: kind !== 'wsd' && cooldown !== undefined }
  const last = cooldownSteps({ cooldown, end })
  if (minLr > optimizer.lr)
    yield error(
      'training/lr',
      `${path}.minLr`,
      `minLr ${minLr} > lr ${optimizer.lr} of the optimizer`,
      `try ${optimizer.lr / 10}`,
    )
  for (const [key, has] of Object.entries(idle))
    if (has) yield warning('training/lr', `${path}.${key}`, `has no effect with kind ${kind}`)
  if (warmupFrom !== undefined && warmupFrom > optimizer.lr)
    yield error('training/lr', `${path}.warmupFrom`, `warmupFrom ${warmupFrom} > lr ${optimizer.lr} of the optimizer`)
  if (kind === 'wsd' && warmup + last > end)
    yield error(
      'training/lr',
      `${path}.cooldown`,
      `warmup ${warmup} + cooldown ${last} > ${end} steps`,
      `try ${Math.max(0, Math.floor((end - warmup) / 10))}`,
    )
  if (warmup > steps)
    yield warning(
      'training/lr',
      `${path}.warmup`,
      `warmup ${warmup} > steps ${steps}: the learning rate never reaches ${optimizer.lr}`,
    )
}
