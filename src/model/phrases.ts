/** What is said of a config.json of Hugging Face, in English. */
import { type ProblemPhrases, phrasing, schemaPhrases } from '../base/index.js'

const ignoredPhrases = {
  'model/ignored/dropout': ['ignored: there is no dropout in this family'],
  'model/ignored/mlp-bias': ['ignored: feed-forward layers have no biases here'],
  'model/ignored/quantised': ['ignored: parameters are trained unquantised'],
  'model/ignored/scaled': ['ignored: scores are scaled by 1/sqrt(headDim) in every layer'],
  'model/ignored/cross': ['ignored: there is no cross attention'],
  'model/ignored/exact-gelu': [
    'GELU is computed by its tanh form, 5e-4 from the exact one at most: losses differ a little',
  ],
  'model/ignored/rates': ['one rate serves all dropouts: {rate} of resid_pdrop'],
  'model/ignored/output-bias': ['only query, key and value get a bias, the output does not'],
  'model/ignored/window': ['ignored: {layers} of {all} layers have a window; here all layers have one or none'],
  'model/ignored/no-window': ['ignored: this family has no window, nor has it in transformers'],
  'model/ignored/foreign': ['ignored: {family} has no such setting, nor has it in transformers'],
  'model/ignored/rotated': ['ignored: whole heads are rotated'],
  'model/ignored/scaling': ['ignored: positions are rotated without the scaling `{scaling}`'],
  'model/ignored/dynamic': ['ignored: up to {positions} positions it changes nothing; further ones would be scaled'],
  'model/ignored/ramp': ['ignored: the ramp begins and ends at whole pairs'],
  'model/ignored/jitter': ['ignored: the router sees its tokens as they are'],
  'model/ignored/one-token': ['ignored: one token is predicted, not several'],
  'model/ignored/groups': ['a group counts by its best {chosen} / {groups} experts; transformers takes the best 2'],
} as const satisfies ProblemPhrases

const configPhrases = {
  'model/config': ['expected a mapping, got {got}'],
  'model/config/missing': ['is missing'],
  'model/config/type': ['is missing', 'it must be {families}'],
  'model/config/file': ['{file}: {key}{what}', '{instead}'],
  'model/heads/hidden': ['{width} / num_attention_heads {heads} is not an integer'],
  'model/unsupported/type': ['`{type}` is not supported', '{instead}'],
  '.nearest': ['nearest is `{name}`'],
  '.supported': ['supported: {families}'],
  'model/unsupported/activation': ['activation `{activation}` is not supported', 'it must be {allowed}'],
  'model/unsupported/layers': [
    'layers {layers} are not routed',
    'only the first layers may be so, and then all others are',
  ],
  'model/unsupported/scores': ['`{scores}` is not supported', 'it must be sigmoid or softmax'],
  'model/unsupported/frequency': ['{frequency}: here every layer after the dense ones is routed', 'try 1'],
  'model/unsupported/biases': ['latent attention has no biases here', 'it must be false'],
  'model/unsupported/unscaled': ['scores are divided by sqrt(headDim) here', 'it must be true'],
} as const satisfies ProblemPhrases

export const modelPhrases = { ...schemaPhrases, ...ignoredPhrases, ...configPhrases } as const

export const { refused, advised, clause } = phrasing(modelPhrases)
export type IgnoredPhrase = Exclude<
  keyof typeof ignoredPhrases,
  `model/ignored/${'rates' | 'window' | 'foreign' | 'dynamic' | 'scaling' | 'groups'}`
>
