/** Messages about the text of a job, its model, its data and its training settings, in English. */
import type { ErrorCode } from 'yaml'
import type { Phrase, ProblemPhrases } from '../base/index.js'

const leaveOut = 'leave it out'

const filePhrases = {
  'file/deep': ['nested more than {most} levels deep'],
  'file/yaml': ['not valid YAML: {why}'],
  'file/documents': ['more than one document', 'one {name} per file'],
  'file/size': [
    '{bytes} is too large for a {name} file; the maximum is {most}',
    'a {name} is usually one screen of text: is this the right file?',
  ],
  'file/binary': ['not a text file', 'a {name} is YAML or JSON in UTF-8'],
  'file/empty': ['the file is empty', '{holds}'],
  'file/alias/many': ['more than {most} values, aliases counted each time'],
  'file/alias/none': ['no anchor `&{name}` before this alias'],
  'file/alias/circle': ['the alias `*{name}` contains itself'],
  'file/key': ['a key must be a string'],
  'file/duplicate': ['the key `{key}` is written twice', 'keep one of them'],
  'file/more': ['and {more} more problems'],
  'file/foreign': [
    'this is a configuration of {framework}, not a job',
    'convert it with lockstep import {path} --out job.yaml',
  ],
  'file/foreign/model': [
    'this is a Hugging Face model configuration{type}, not a job',
    'write a job that names it: {job}',
  ],
  'file/foreign/cluster': ['this is a cluster file, not a job', 'pass it with --cluster, and a job here'],
  'schema/type/job': ['a job is a mapping with model, training and plan'],
  'schema/type/preset': ['expected a preset name', '{instead}'],
  'model/preset': ['unknown model `{name}`', '{instead}'],
  'model/file': ['{path}: {why}'],
  'model/file/json': ['{path}: not valid JSON: {why}'],
  'model/file/here': ['{path}: files cannot be read here'],
  '.job': ['job'],
  '.job-holds': ['a job has model, training and plan'],
  '.preset-or-file': ['{meant} (or the path of a Hugging Face config.json)'],
} as const satisfies ProblemPhrases

/** The YAML parser reports in English; other languages translate its error codes. */
const yamlPhrases = {
  '.yaml/ALIAS_PROPS': ['{why}'],
  '.yaml/BAD_ALIAS': ['{why}'],
  '.yaml/BAD_DIRECTIVE': ['{why}'],
  '.yaml/BAD_DQ_ESCAPE': ['{why}'],
  '.yaml/BAD_INDENT': ['{why}'],
  '.yaml/BAD_PROP_ORDER': ['{why}'],
  '.yaml/BAD_SCALAR_START': ['{why}'],
  '.yaml/BLOCK_AS_IMPLICIT_KEY': ['{why}'],
  '.yaml/BLOCK_IN_FLOW': ['{why}'],
  '.yaml/DUPLICATE_KEY': ['{why}'],
  '.yaml/IMPOSSIBLE': ['{why}'],
  '.yaml/KEY_OVER_1024_CHARS': ['{why}'],
  '.yaml/MISSING_CHAR': ['{why}'],
  '.yaml/MULTILINE_IMPLICIT_KEY': ['{why}'],
  '.yaml/MULTIPLE_ANCHORS': ['{why}'],
  '.yaml/MULTIPLE_DOCS': ['{why}'],
  '.yaml/MULTIPLE_TAGS': ['{why}'],
  '.yaml/NON_STRING_KEY': ['{why}'],
  '.yaml/RESOURCE_EXHAUSTION': ['{why}'],
  '.yaml/TAB_AS_INDENT': ['{why}'],
  '.yaml/TAG_RESOLVE_FAILED': ['{why}'],
  '.yaml/UNEXPECTED_TOKEN': ['{why}'],
  '.yaml/BAD_COLLECTION_TYPE': ['{why}'],
} as const satisfies Readonly<Record<`.yaml/${ErrorCode}`, Phrase>>

const dataPhrases = {
  'data/vocab': ['model.vocab {vocab} < {tokens} tokens of {of}', 'try vocab {tokens}'],
  'data/vocab/bpe': ['a BPE vocabulary needs 256 bytes + 1 EOS = {least} tokens, got {vocab}'],
  'data/labels': ['seq 1 - 1 masked label = 0 labels in the loss of the synthetic task', 'try 2'],
  'data/family/vectors': ['an mlp trains on vectors, but `{source}` holds tokens', 'try source synthetic'],
  'data/family/experts': ['the model has no experts to route to', leaveOut],
  'data/family/documents': ['an mlp trains on vectors, not on documents', leaveOut],
  'data/no-effect/vocab': ['has no effect except for text with tokenizer bpe'],
  'data/no-effect/width': ['has no effect unless the source is a .bin file'],
  'data/pairs/lines': ['`{source}` is not a JSON Lines file', 'pass a .jsonl file'],
  'data/pairs/pad': ['has no effect: prompt/completion pairs are never split across sequences', leaveOut],
  'data/documents/end': ['no tokenizer defines an EOS token for source `{source}`', 'set eod to the token id'],
  'data/documents/separator': ['eod {eod} >= model.vocab {vocab}: no document would end', 'try {near}'],
  'data/documents/pad': ['seq {seq} % pad {pad} = {rest}, must be 0', 'try {fitting}'],
} as const satisfies ProblemPhrases

const trainingPhrases = {
  'training/optimizer/momentum': ['requires momentum > 0, but momentum is 0', 'try momentum: 0.9'],
  'training/optimizer/nesterov': ['nesterov requires dampening 0', 'leave one of the two out'],
  'training/lr/least': ['minLr {minLr} > lr {lr} of the optimizer', 'try {near}'],
  'training/lr/no-effect': ['has no effect with kind {kind}'],
  'training/lr/from': ['warmupFrom {warmupFrom} > lr {lr} of the optimizer'],
  'training/lr/cooldown': ['warmup {warmup} + cooldown {cooldown} > {steps} steps', 'try {near}'],
  'training/lr/warmup': ['warmup {warmup} > steps {steps}: the learning rate never reaches {lr}'],
  'training/scale/least': [
    'min {min} > initial {initial}: the loss scale cannot start below its minimum',
    'set min to at most {initial}',
  ],
  'training/scale/power': [
    '{name} {value} is not a power of two: scaling rounds gradients, which changes the last bits of results',
    'try {near}',
  ],
  'training/lora/none': ['a {family} model has no matrix {matrices}', 'set targets to [{can}], or a subset'],
  'training/lora/rows': [
    'inputs of {matrices} are tokens dispatched to experts, whose placement depends on the plan: a dropout mask would too',
    'set dropout to 0, or targets to [{can}] or a subset',
  ],
  'plan/unwise/bf16': [
    '{what} in bf16 lose every update below 1/{share} of their value{example}',
    'try bf16, with gradients, moments and master weights in f32: {less} bytes per parameter instead of {more}; or rounding: stochastic, which keeps small updates on average',
  ],
  '.parameters': ['parameters'],
  '.sums': ['accumulated gradients, moments and parameters'],
  '.still-above': [': an update with lr {lr} changes no parameter above {above}'],
} as const satisfies ProblemPhrases

export const jobPhrases = { ...filePhrases, ...yamlPhrases, ...dataPhrases, ...trainingPhrases } as const
