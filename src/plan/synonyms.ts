/**
 * What other frameworks call the things a job says: DeepSpeed, Megatron-LM, Hugging Face, PyTorch, torchtitan, nanoGPT.
 * A word of theirs is answered with the word that is meant here, or with what is not there yet.
 */
import { optimizerKinds, shorten } from '../base/index.js'
import { type Beside, besideIn, converted, type Fields, showFields } from './conversions.js'
import { habitKeys, habitNotes } from './habit-words.js'

function spelt(meant: string, words: string): Record<string, string> {
  return Object.fromEntries(words.split(' ').map(word => [word, meant]))
}

export const plainly = (word: string): string => word.toLowerCase().replaceAll(/[-_. ]/g, '')

/** 'tensor_model_parallel_size' -> 'plan.tp' */
export const keyMeant = (word: string): string | undefined => {
  const plain = plainly(word)
  return Object.hasOwn(habitKeys, plain) ? habitKeys[plain] : undefined
}

/** What a key of another framework does not say by itself. */
const remarks: Readonly<Record<string, string>> = {
  'training.steps': 'a run is so many steps of seq x globalBatch tokens',
  'plan.offload': '{ optimizer: host or disk, parameters: host or disk, activations: boundaries }',
  'training.batchRamp': '[{ globalBatch: 16, until: 10k }]: so many sequences a step until so many were seen',
  model: 'a preset, or ./config.json; `lockstep train --init FOLDER` starts from its weights',
  'plan.layers': 'even, a list of layers per stage, or { first, last }',
  'plan.zero': '1 splits optimizer state over dp, 2 gradients too, 3 parameters too (FSDP)',
  'plan.microbatches': 'a microbatch has globalBatch / (dp x microbatches) sequences',
  'plan.chunks': 'stages each pipeline rank holds, with schedule interleaved',
  'plan.recompute': 'none, cheap, selective or full',
  'plan.cp': 'attention says how its ranks meet: gather, ring, ulysses or { ulysses, ring }',
  'plan.ep': 'ranks that a model with `moe` deals its experts out to',
  'model.moe': 'of the llama family: { experts, chosen, ffn, ... }',
  'training.lora': '{ rank: 8, alpha: 16, targets: [q, v] }',
  'training.lossScale': 'a number that stays, or { kind: torch, megatron or deepspeed, ... }',
  'training.lrSchedule': 'kind constant, linear, cosine, inverse-sqrt or wsd',
}

/** A key that a job does not have: where it stands, what it is given, and what the rest of the file says. */
export interface StrangeKey {
  readonly key: string
  readonly path: string
  readonly value?: unknown
  readonly beside?: Beside
  /** The field of ours that is spelt so. */
  readonly ours?: string | undefined
  /** Whether a field takes a value; without it what is converted is believed. */
  readonly takes?: (field: string, value: unknown) => boolean
}

/** What to write instead of it. */
export function keyHint({
  key,
  path,
  value,
  beside = besideIn({}),
  ours,
  takes = () => true,
}: StrangeKey): string | undefined {
  const plain = plainly(key)
  if (Object.hasOwn(habitNotes, plain)) return habitNotes[plain]
  const meant = keyMeant(key) ?? ours
  if (meant === undefined) return undefined
  const remark = Object.hasOwn(remarks, meant) ? ` (${remarks[meant]})` : ''
  const fields = converted(plain, meant, value, beside)
  const fits = fields && Object.entries(fields).every(([field, given]) => takes(field, given))
  return fits
    ? `write ${showFields(fields, path)}${remarkOn(fields, remark)}`
    : `did you mean ${named(meant, path)}?${remark}`
}

const named = (meant: string, path: string): string =>
  `\`${meant.startsWith(`${path}.`) ? meant.slice(path.length + 1) : meant}\``

/** How pieces of a batch are counted differs so much that it is said with the number too. */
const remarkOn = (fields: Fields, remark: string): string => ('plan.microbatches' in fields ? remark : '')

const f8 = 'what is kept has 16 bits at least: write bf16, and fp8: {} beside it for products on 8'
const noOptimizer = `not supported yet; one of ${optimizerKinds.join(', ')}`

/** Other frameworks' values by field and word: the value that is meant, or a sentence. */
const values: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  precision: {
    ...spelt('`bf16`', 'bfloat16 bf16mixed bf16true mixed amp'),
    ...spelt('`f32`', 'float32 fp32 float full single'),
    ...spelt('`f16`', 'fp16 float16 half 16mixed'),
    ...spelt(f8, 'fp8 float8 f8 e4m3 e5m2 mxfp8 nvfp4 fp4'),
    tf32: 'tf32 is how a GPU multiplies f32: write f32, and price it with simulate --multiply tf32',
  },
  schedule: {
    ...spelt('`1f1b`', 'pipedream pipedreamflush dapple onefoneb oneforwardonebackward'),
    ...spelt('`interleaved`', 'interleaved1f1b virtualpipeline virtual vpp megatron'),
    ...spelt('`zb-h1`', 'zerobubble zb zbh zb1p'),
    ...spelt('`zb-h2`', 'zb2p'),
    ...spelt('`zb-v`', 'zbvzerobubble zbv'),
    ...spelt('`interleaved-zb`', 'interleavedzerobubble'),
    ...spelt('`looped-bfs`', 'loopedbfs bfs breadthfirst'),
    pipedream2bw: 'weights of several versions are not supported: a step uses one; did you mean `1f1b`?',
    ...spelt('not supported; dualpipe also runs both ways, or write a .csv file', 'chimera hanayo'),
  },
  recompute: {
    ...spelt('`full`', 'true yes on all uniform block'),
    ...spelt('`none`', 'false no off'),
    ...spelt('`selective`', 'attention core'),
    ...spelt('`cheap`', 'norms activations pointwise elementwise'),
  },
  kind: {
    ...spelt('`adamw`, with coupled: true for the decay of plain Adam', 'adam adamoptimizer fusedadam'),
    ...spelt('`sgd` with momentum and nesterov: true', 'nesterov nag'),
    ...spelt('`adamw` with amsgrad: true', 'amsgrad'),
    ...spelt(noOptimizer, 'shampoo sophia adagrad rmsprop adam8bit'),
  },
  optimizer: {
    ...spelt('write { kind: adamw, lr: 3e-4 }', 'adamw adam'),
    sgd: 'write { kind: sgd, lr: 0.1 }',
    lion: 'write { kind: lion, lr: 1e-4 }',
  },
  zero: {
    ...spelt('`1`', 'zero1 stage1 os'),
    ...spelt('`2`', 'zero2 stage2 osg'),
    ...spelt('`3`', 'zero3 stage3 fsdp'),
  },
}

/** What to write instead of a value that a field does not take. */
export function valueHint(field: string, value: unknown): string | undefined {
  if (typeof value === 'object') return undefined
  if (field === 'data' && typeof value === 'string') return `write { source: ${shorten(value, 60)} }`
  const known = Object.hasOwn(values, field) ? values[field] : undefined
  const word = plainly(String(value))
  const meant = known && Object.hasOwn(known, word) ? known[word] : undefined
  return meant?.startsWith('`') ? `did you mean ${meant}?` : meant
}

const noPreset = 'no preset: write model: ./config.json with its Hugging Face config'
const encoders = 'only decoders that predict the next token are supported'

/** Families of models, by how their names begin. */
const families: readonly (readonly [name: RegExp, hint: string])[] = [
  [/mixtral|qwen\d?.*moe|deepseek|kimi/i, noPreset],
  [
    /moe|dbrx|grok|gpt-?oss|switch/i,
    'routed experts are part of the llama family alone: mixtral, qwen, deepseek, kimi',
  ],
  [/bert|t5|bart|vit|clip|whisper/i, encoders],
  [/mistral|qwen|yi|phi|gemma|smollm|tinyllama/i, noPreset],
  [/falcon|bloom|opt|mpt|neox|pythia|gpt-?j/i, 'not supported; families: gpt, llama, mlp'],
]

/** What to write instead of a model that has no preset. */
export function modelHint(name: string): string | undefined {
  if (isPath(name)) return `a folder or another file is not read: write model: ${name.replace(/\/+$/, '')}/config.json`
  const [, hint] = families.find(([pattern]) => pattern.test(name)) ?? []
  if (hint !== undefined) return hint
  return isHubName(name)
    ? 'that looks like a name on the Hugging Face hub: nothing is downloaded, save its config.json beside the job and write model: ./config.json'
    : undefined
}

/** './llama', '/models/llama' */
const isPath = (text: string): boolean => /^(\.{0,2}|~)\//.test(text)

/** 'meta-llama/Llama-3.1-8B' */
export const isHubName = (text: string): boolean =>
  /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/.test(text) && !/\.(ya?ml|json|toml)$/.test(text)
