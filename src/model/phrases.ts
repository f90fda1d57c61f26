/** Messages about a Hugging Face config.json, in English. */
import { type ProblemPhrases, phrasing, schemaPhrases } from '../base/index.js'

const ignoredPhrases = {
  'model/ignored/dropout': ['ignored: this family has no dropout'],
  'model/ignored/mlp-bias': ['ignored: feed-forward biases are not supported'],
  'model/ignored/quantised': ['ignored: training does not quantize parameters'],
  'model/ignored/scaled': ['ignored: attention scores are scaled by 1/sqrt(headDim) in every layer'],
  'model/ignored/cross': ['ignored: cross-attention is not supported'],
  'model/ignored/exact-gelu': [
    'GELU uses the tanh approximation, within 5e-4 of the exact one: losses differ slightly',
  ],
  'model/ignored/rates': ['all dropouts use one rate: {rate}, from resid_pdrop'],
  'model/ignored/output-bias': ['only query, key and value have a bias, the output projection has none'],
  'model/ignored/window': [
    'ignored: {layers} of {all} layers have a sliding window; only a window for all layers is supported',
  ],
  'model/ignored/no-window': ['ignored: this family has no sliding window in transformers either'],
  'model/ignored/foreign': ['ignored: {family} has no such setting in transformers either'],
  'model/ignored/rotated': ['ignored: rotary embeddings rotate the full head'],
  'model/ignored/scaling': ['ignored: the RoPE scaling `{scaling}` is not supported'],
  'model/ignored/dynamic': ['ignored: it changes nothing up to {positions} positions; beyond that it would scale them'],
  'model/ignored/ramp': ['ignored: the ramp begins and ends at integer pairs'],
  'model/ignored/jitter': ['ignored: router jitter is not supported'],
  'model/ignored/one-token': ['ignored: multi-token prediction is not supported'],
  'model/ignored/groups': ['a group is scored by its top {chosen} / {groups} experts; transformers uses the top 2'],
} as const satisfies ProblemPhrases

const configPhrases = {
  'model/config': ['expected a mapping, got {got}'],
  'model/config/missing': ['is missing'],
  'model/config/type': ['is missing', 'it must be {families}'],
  'model/config/file': ['{file}: {key}{what}', '{instead}'],
  'model/heads/hidden': ['{width} / num_attention_heads {heads} is not an integer'],
  'model/unsupported/type': ['`{type}` is not supported', '{instead}'],
  '.nearest': ['the closest is `{name}`'],
  '.supported': ['supported: {families}'],
  'model/unsupported/activation': ['activation `{activation}` is not supported', 'it must be {allowed}'],
  'model/unsupported/layers': [
    'layers {layers} are dense',
    'only the first layers may be dense; all later ones must be routed',
  ],
  'model/unsupported/scores': ['`{scores}` is not supported', 'it must be sigmoid or softmax'],
  'model/unsupported/frequency': [
    '{frequency}: only routing in every layer after the dense ones is supported',
    'try 1',
  ],
  'model/unsupported/biases': ['latent attention with biases is not supported', 'it must be false'],
  'model/unsupported/unscaled': ['unscaled attention scores are not supported', 'it must be true'],
} as const satisfies ProblemPhrases

export const modelPhrases = { ...schemaPhrases, ...ignoredPhrases, ...configPhrases } as const

export const { refused, advised, clause } = phrasing(modelPhrases)
export type IgnoredPhrase = Exclude<
  keyof typeof ignoredPhrases,
  `model/ignored/${'rates' | 'window' | 'foreign' | 'dynamic' | 'scaling' | 'groups'}`
>
