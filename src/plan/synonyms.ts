/**
 * What other frameworks call the things a job says: DeepSpeed, Megatron-LM, Hugging Face, PyTorch, torchtitan, nanoGPT.
 * A word of theirs is answered with the word that is meant here, or with what is not there yet.
 */
import { optimizerKinds, type Spoken, shorten, spoken } from '../base/index.js'
import { type Beside, besideIn, converted, showFields } from './conversions.js'
import { usualRows } from './folding.js'
import { habitKeys, habitNotes, habitsWithin } from './habit-words.js'
import { clause } from './phrases.js'
import { remarkPhrases } from './phrases-hints.js'

function spelt<Meant>(meant: Meant, words: string): Record<string, Meant> {
  return Object.fromEntries(words.split(' ').map(word => [word, meant]))
}

export const plainly = (word: string): string => word.toLowerCase().replaceAll(/[-_. ]/g, '')

/** 'tensor_model_parallel_size' -> 'plan.tp' */
export const keyMeant = (word: string): string | undefined => of(habitKeys, plainly(word))

/** What a table says of a word that a file may have chosen: `constructor` is nothing to it. */
const of = <Meant>(table: Readonly<Record<string, Meant>>, word: string): Meant | undefined =>
  Object.hasOwn(table, word) ? table[word] : undefined

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
}: StrangeKey): Spoken | undefined {
  const plain = plainly(key)
  const within = of(of(habitsWithin, path) ?? {}, plain)
  const note = of(habitNotes, plain)
  if (within === undefined && note !== undefined) return spoken(note, [])
  const meant = within ?? keyMeant(key) ?? ours
  if (meant === undefined) return undefined
  const fields = converted(plain, meant, value, beside)
  const fits = fields && Object.entries(fields).every(([field, given]) => takes(field, given))
  const field = named(meant, path)
  // A word of ours that another kind of model has: what it is of is all there is to say.
  if (field === key && Object.hasOwn(remarkPhrases, `.remark/${meant}`)) return spoken(`.remark/${meant}`, [])
  if (!fits) return clause('.meant-field', { field, remark: remarkOn(meant) })
  // How pieces of a batch are counted differs so much that it is said with the number too.
  return clause('.write-fields', {
    ...{ fields: showFields(fields, path), remark: remarkWith(fields, plain, meant) },
  })
}

/** Replicas of a sharded model alone say nothing of how large a group is. */
function remarkWith(fields: Readonly<Record<string, unknown>>, plain: string, meant: string): Spoken | '' {
  if (plain.includes('replicate') && !('plan.shard' in fields)) return remarkOn('replicas')
  return 'plan.microbatches' in fields ? remarkOn(meant) : ''
}

const named = (meant: string, path: string): string =>
  meant.startsWith(`${path}.`) ? meant.slice(path.length + 1) : meant

/** What a key of another framework does not say by itself. */
const remarkOn = (meant: string): Spoken | '' =>
  Object.hasOwn(remarkPhrases, `.remark/${meant}`) ? clause('.remark', { remark: spoken(`.remark/${meant}`, []) }) : ''

const instead = (word: string): Spoken => clause('.did-you-mean', { word })
const written = (value: string): Spoken => clause('.write', { value })

/** Other frameworks' values by field and word: what is said to each. */
const values: Readonly<Record<string, Readonly<Record<string, Spoken>>>> = {
  precision: {
    ...spelt(instead('bf16'), 'bfloat16 bf16mixed bf16true mixed amp'),
    ...spelt(instead('f32'), 'float32 fp32 float full single'),
    ...spelt(instead('f16'), 'fp16 float16 half 16mixed'),
    ...spelt(spoken('.value/f8', []), 'fp8 float8 f8 e4m3 e5m2 mxfp8 nvfp4 fp4'),
    tf32: clause('.value/tf32'),
  },
  schedule: {
    ...spelt(instead('1f1b'), 'pipedream pipedreamflush dapple onefoneb oneforwardonebackward'),
    ...spelt(instead('interleaved'), 'interleaved1f1b virtualpipeline virtual vpp megatron'),
    ...spelt(instead('zb-h1'), 'zerobubble zb zbh zb1p'),
    ...spelt(instead('zb-h2'), 'zb2p'),
    ...spelt(instead('zb-v'), 'zbvzerobubble zbv'),
    ...spelt(instead('interleaved-zb'), 'interleavedzerobubble'),
    ...spelt(instead('looped-bfs'), 'loopedbfs bfs breadthfirst'),
    pipedream2bw: clause('.value/2bw'),
    ...spelt(clause('.value/chimera'), 'chimera hanayo'),
  },
  recompute: {
    ...spelt(instead('full'), 'true yes on all uniform block'),
    ...spelt(instead('none'), 'false no off'),
    ...spelt(instead('selective'), 'attention core'),
    ...spelt(instead('cheap'), 'norms activations pointwise elementwise'),
  },
  kind: {
    ...spelt(clause('.value/adam'), 'adam adamoptimizer fusedadam'),
    ...spelt(clause('.value/nesterov'), 'nesterov nag'),
    ...spelt(clause('.value/amsgrad'), 'amsgrad'),
    ...spelt(
      clause('.value/optimizer', { kinds: { joint: ',', of: optimizerKinds } }),
      'shampoo sophia adagrad rmsprop adam8bit',
    ),
  },
  optimizer: {
    ...spelt(written('{ kind: adamw, lr: 3e-4 }'), 'adamw adam'),
    sgd: written('{ kind: sgd, lr: 0.1 }'),
    lion: written('{ kind: lion, lr: 1e-4 }'),
  },
  attention: {
    ...spelt(instead('ring'), 'p2p ringattention pass passkv'),
    ...spelt(instead('gather'), 'allgather allgatherkv'),
    ...spelt(instead('ulysses'), 'a2a alltoall deepspeedulysses'),
    ...spelt(written('{ ulysses: 2, ring: 2 }'), 'a2a+p2p usp hybrid'),
  },
  zero: {
    ...spelt(instead('1'), 'zero1 stage1 os'),
    ...spelt(instead('2'), 'zero2 stage2 osg'),
    ...spelt(instead('3'), 'zero3 stage3 fsdp'),
  },
}

/** What to write instead of a value that a field does not take. */
export function valueHint(field: string, value: unknown): Spoken | undefined {
  if (typeof value === 'object') return undefined
  if (field === 'data' && typeof value === 'string') return written(`{ source: ${shorten(value, 60)} }`)
  if (field === 'expertCapacity' && typeof value === 'number') return clause('.value/rows', { usual: usualRows })
  return of(of(values, field) ?? {}, plainly(String(value)))
}

/** Families of models, by how their names begin. */
const families: readonly (readonly [name: RegExp, hint: Spoken])[] = [
  [/mixtral|qwen\d?.*moe|deepseek|kimi/i, clause('.model/config')],
  [/moe|dbrx|grok|gpt-?oss|switch/i, clause('.model/experts')],
  [/bert|t5|bart|vit|clip|whisper/i, clause('.model/encoder')],
  [/mistral|qwen|yi|phi|gemma|smollm|tinyllama/i, clause('.model/config')],
  [/falcon|bloom|opt|mpt|neox|pythia|gpt-?j/i, clause('.model/family')],
]

/** What to write instead of a model that has no preset. */
export function modelHint(name: string): Spoken | undefined {
  if (/\.(pt|pth|bin|ckpt|safetensors)$/.test(name)) return clause('.model/weights')
  if (isPath(name)) return clause('.model/folder', { path: name.replace(/\/+$/, '') })
  const [, hint] = families.find(([pattern]) => pattern.test(name)) ?? []
  return hint ?? (isHubName(name) ? clause('.model/hub') : undefined)
}

/** './llama', '/models/llama' */
const isPath = (text: string): boolean => /^(\.{0,2}|~)\//.test(text)

/** 'meta-llama/Llama-3.1-8B' */
export const isHubName = (text: string): boolean =>
  /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/.test(text) && !/\.(ya?ml|json|toml)$/.test(text)
