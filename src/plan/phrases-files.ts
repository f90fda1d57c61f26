/** What is said of the text of a job, of the model and the data that it names, and of how it trains, in English. */
import type { ErrorCode } from 'yaml'
import type { Phrase, ProblemPhrases } from '../base/index.js'

const leaveOut = 'leave it out'

const filePhrases = {
  'file/deep': ['nested more than {most} levels deep'],
  'file/yaml': ['not valid YAML: {why}'],
  'file/documents': ['more than one document', 'one {name} per file'],
  'file/size': [
    '{bytes} is too big for a {name} file; at most {most}',
    'a {name} is a screen of text: is this the right file?',
  ],
  'file/binary': ['not a text file', 'a {name} is YAML or JSON in UTF-8'],
  'file/empty': ['the file is empty', '{holds}'],
  'file/alias/many': ['more than {most} values, aliases counted each time'],
  'file/alias/none': ['no anchor `&{name}` before this alias'],
  'file/alias/circle': ['the alias `*{name}` contains itself'],
  'file/key': ['a key must be a word'],
  'file/duplicate': ['the key `{key}` is written twice', 'keep one of them'],
  'file/more': ['and {more} more problems'],
  'file/foreign': [
    'this is a configuration of {framework}, not a job',
    'lockstep import {path} --out job.yaml makes one of it',
  ],
  'file/foreign/model': [
    'this is the Hugging Face configuration of a model{type}, not a job',
    'write a job beside it: {job}',
  ],
  'file/foreign/cluster': ['this is a cluster file, not a job', 'give it to --cluster, and a job in its place'],
  'schema/type/job': ['a job is a mapping with model, training and plan'],
  'schema/type/preset': ['expected the name of a preset', '{instead}'],
  'model/preset': ['unknown model `{name}`', '{instead}'],
  'model/file': ['{path}: {why}'],
  'model/file/json': ['{path}: not valid JSON: {why}'],
  'model/file/here': ['{path}: files cannot be read here'],
  '.job': ['job'],
  '.job-holds': ['a job has model, training and plan'],
  '.preset-or-file': ['{meant} (or the path of a Hugging Face config.json)'],
} as const satisfies ProblemPhrases

/** The parser of YAML speaks English: what it says is told by its code where another language is spoken. */
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
  'data/vocab/bpe': ['a bpe has 256 bytes + 1 end of text = {least} tokens, got {vocab}'],
  'data/labels': ['seq 1 - 1 first label = 0 labels to learn on the synthetic task', 'try 2'],
  'data/family/vectors': ['an mlp learns from vectors, but `{source}` holds tokens', 'try source synthetic'],
  'data/family/experts': ['the model has no experts to choose', leaveOut],
  'data/family/documents': ['an mlp learns from vectors, not from documents', leaveOut],
  'data/no-effect/vocab': ['has no effect unless a text is read with tokenizer bpe'],
  'data/no-effect/width': ['has no effect unless the source is a .bin file'],
  'data/pairs/lines': ['`{source}` holds no lines of JSON', 'name a .jsonl file'],
  'data/pairs/pad': ['pairs lie whole in sequences already', leaveOut],
  'data/documents/end': [
    'no tokenizer says which token ends a document of source `{source}`',
    'give the id of the token',
  ],
  'data/documents/separator': ['separator {separator} >= model.vocab {vocab}: no token ends a document', 'try {near}'],
  'data/documents/pad': ['seq {seq} % pad {pad} = {rest}, must be 0', 'try {fitting}'],
} as const satisfies ProblemPhrases

const trainingPhrases = {
  'training/optimizer/momentum': ['needs momentum, and momentum is 0', 'try momentum: 0.9'],
  'training/optimizer/nesterov': ['nesterov looks ahead by the whole gradient', 'leave one out'],
  'training/lr/least': ['minLr {minLr} > lr {lr} of the optimizer', 'try {near}'],
  'training/lr/no-effect': ['has no effect with kind {kind}'],
  'training/lr/from': ['warmupFrom {warmupFrom} > lr {lr} of the optimizer'],
  'training/lr/cooldown': ['warmup {warmup} + cooldown {cooldown} > {steps} steps', 'try {near}'],
  'training/lr/warmup': ['warmup {warmup} > steps {steps}: the learning rate never reaches {lr}'],
  'training/scale/least': [
    'min {min} > initial {initial}: the scale cannot begin below its minimum',
    'set min to at most {initial}',
  ],
  'training/scale/power': [
    '{name} {value} is not a power of two: scaling rounds gradients, and results change in the last bits',
    'try {near}',
  ],
  'training/lora/none': ['a {family} model has no matrix {matrices}', 'set targets to [{can}], or some of them'],
  'training/lora/rows': [
    'what enters {matrices} are rows of experts, which lie elsewhere under every plan: none could leave out the same',
    'set dropout to 0, or targets to [{can}], or some of them',
  ],
  'plan/unwise/bf16': [
    '{what} in bf16 lose every update below 1/{share} of what they hold{example}',
    'try bf16, with gradients, moments and master weights in f32: {less} bytes a parameter instead of {more}; or rounding: stochastic, which adds them up on average',
  ],
  '.parameters': ['parameters'],
  '.sums': ['sums, moments and parameters'],
  '.still-above': [': a step of lr {lr} moves no parameter above {above}'],
} as const satisfies ProblemPhrases

export const jobPhrases = { ...filePhrases, ...yamlPhrases, ...dataPhrases, ...trainingPhrases } as const
