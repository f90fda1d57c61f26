/**
 * The weights of a checkpoint as a Hugging Face folder: config.json, safetensors in one file or several with an index, and
 * what belongs to the tokenizer. One tensor is in memory at a time. config.json is written last: a folder without one is
 * not taken for a model.
 */
import {
  elementFacts,
  error,
  type Files,
  type Problem,
  ProblemsError,
  warning,
  within,
  writing,
} from '../base/index.js'
import {
  type Checkpoint,
  type Float,
  type Numbers,
  printHead,
  sizes,
  type Texts,
  textNames,
} from '../checkpoint/index.js'
import { type ModelConfig, toHuggingFace } from '../model/index.js'
import { configFile, type WeightFolder } from './folder.js'
import { json } from './json.js'
import { type MappedTensor, tensorsOf, type WeightMap, weightMap } from './map.js'
import { encodeNumbers, floatOf } from './numbers.js'
import { scatter, sizeOf } from './place.js'
import { isModelType } from './tables.js'

/** What numbers may be written in. */
export const writtenFloats = ['f32', 'bf16', 'f16', 'f64'] as const satisfies readonly Float[]

export interface ExportOptions {
  readonly files: Files
  /** The folder to write. */
  readonly out: string
  /** What every number is rounded to; without it as `like` has them, or else f32. */
  readonly dtype?: Float | undefined
  /** A file has at most so many bytes of tensors, unless one alone has more. */
  readonly shardBytes?: number | undefined
  /** The moving average of the weights instead of the weights. */
  readonly average?: boolean | undefined
  /** A folder of the same model, whose config, names, dtypes, rows of positions and texts are taken over. */
  readonly like?: WeightFolder | undefined
  /** tokenizer.json, where `like` has none. */
  readonly tokenizer?: string | undefined
  /** What else a checkpoint carries of how its model is used, where `like` is not given. */
  readonly texts?: Texts | undefined
  /** The tokens that begin and end a text, as that tokenizer has them. */
  readonly edges?: Edges | undefined
}

interface Edge {
  readonly id: number
  readonly text: string
}

interface Edges {
  readonly begin?: Edge
  readonly end?: Edge
}

export interface Exported {
  readonly files: readonly string[]
  readonly modelType: string
  readonly tensors: number
  readonly bytes: number
  /** What could not be carried. */
  readonly warnings: readonly Problem[]
}

/** What was trained: its config, and the tokens of a sequence, of which learned positions have a row each. */
export interface Trained {
  readonly model: ModelConfig
  readonly seq: number
}

const usualShard = 5e9

/** What a checkpoint must have to be written: those with other tensors can be wrapped. */
export type Weights = Pick<Checkpoint, 'tensors' | 'tensor'>

/** Throws all that keeps it from being written, before anything is. */
export function exportWeights(weights: Weights, { model, seq }: Trained, options: ExportOptions): Exported {
  const { files, out, like } = options
  const state = options.average ? 'ema' : 'param'
  const { config, map, problems } = targetOf({ model, seq }, like)
  const wrong = [...weightProblems(weights, map, state), ...folderProblems(out, files)]
  if (wrong.length > 0) throw new ProblemsError(wrong)
  const tensors = tensorsOf(map, like?.formOf).map(tensor => written(tensor, options))
  const groups = shardsOf(tensors, options.shardBytes ?? usualShard)
  writing(out, () => files.makeFolder(out))
  const names = groups.map((_, i) => shardName(i, groups.length))
  const numbersOf = latestOf(name => weights.tensor(`${state}.${name}`))
  for (const [i, group] of groups.entries()) writeShard(within(out, names[i]), group, numbersOf, options)
  const bytes = tensors.reduce((sum, tensor) => sum + bytesOf(tensor), 0)
  const texts = {
    ...(groups.length > 1 && { 'model.safetensors.index.json': indexOf(groups, names, bytes) }),
    ...textsOf(options, config),
  }
  for (const [name, text] of Object.entries(texts))
    writing(within(out, name), () => files.write(within(out, name), text))
  return {
    ...{ files: [...names, ...Object.keys(texts)], modelType: map.modelType, tensors: tensors.length, bytes },
    warnings: [...problems, ...left(weights, map)],
  }
}

type Config = Readonly<Record<string, unknown>>

export interface Target {
  readonly config: Config
  readonly map: WeightMap
  readonly problems: readonly Problem[]
}

export function targetOf({ model, seq }: Trained, like: WeightFolder | undefined): Target {
  if (like) return { config: like.raw, map: weightMap(model, like.modelType, mapOptions(like, seq)), problems: [] }
  const { config, problems } = toHuggingFace(model, { seq })
  if (!config || !isModelType(config.model_type)) throw new ProblemsError(problems)
  return { config, map: weightMap(model, config.model_type, { seq }), problems }
}

const mapOptions = ({ raw }: WeightFolder, seq: number) => ({ seq, halvesApart: raw.rope_interleave === false })

function weightProblems({ tensors }: Weights, { params }: WeightMap, state: string): Problem[] {
  if (state === 'ema' && ![...tensors.keys()].some(name => name.startsWith('ema.')))
    return [error('checkpoint/missing', '', 'the checkpoint has no EMA weights', 'set training.ema to keep them')]
  return params.flatMap(({ name, dims }) => {
    const [held, wanted] = [tensors.get(`${state}.${name}`), dims].map(all => all && sizes(all.map(({ size }) => size)))
    if (held === undefined) return [error('checkpoint/missing', '', `the checkpoint lacks parameter ${name}`)]
    if (held === wanted) return []
    return [error('checkpoint/shape', '', `parameter ${name} is ${held} in the checkpoint, but ${wanted} in its model`)]
  })
}

/** Parameters that transformers has nothing for. */
function left({ tensors }: Weights, { params, modelType }: WeightMap): Problem[] {
  const known = new Set(params.map(({ name }) => `param.${name}`))
  const others = [...tensors.keys()].filter(name => name.startsWith('param.') && !known.has(name))
  if (others.length === 0) return []
  const more = others.length > 1 ? ` and ${others.length - 1} more` : ''
  return [
    warning(
      'weights/unexpected',
      '',
      `${modelType} has no tensor for ${others[0].slice('param.'.length)}${more}: it is not written`,
    ),
  ]
}

/** A folder that holds anything is somebody's. */
export function folderProblems(out: string, files: Files): Problem[] {
  const isFree = !files.exists(out) || files.list(out)?.length === 0
  return isFree ? [] : [error('run/foreign', '', `${out} is not an empty folder`, 'set another folder with --out')]
}

interface Written extends MappedTensor {
  readonly dtype: Float
  /** As the files have it: they may lack a prefix. */
  readonly stored: string
}

function written(tensor: MappedTensor, { dtype, like }: ExportOptions): Written {
  const there = like?.stored(tensor.name)
  const { shape = tensor.shape } = there ?? {}
  return { ...tensor, shape, stored: there?.name ?? tensor.name, dtype: dtype ?? floatOf(there?.dtype ?? '') ?? 'f32' }
}

const bytesOf = ({ shape, dtype }: Written): number => sizeOf(shape) * elementFacts[dtype].bytes

function shardsOf(tensors: readonly Written[], most: number): Written[][] {
  const groups: Written[][] = []
  let room = 0
  for (const tensor of tensors) {
    if (groups.length === 0 || bytesOf(tensor) > room) {
      groups.push([])
      room = most
    }
    groups[groups.length - 1].push(tensor)
    room -= bytesOf(tensor)
  }
  return groups
}

const shardName = (index: number, count: number): string => {
  const digits = (n: number) => String(n).padStart(5, '0')
  return count === 1 ? 'model.safetensors' : `model-${digits(index + 1)}-of-${digits(count)}.safetensors`
}

const indexOf = (groups: readonly (readonly Written[])[], names: readonly string[], bytes: number): string => {
  const map = groups.flatMap((group, i) => group.map(({ stored }) => [stored, names[i]] as const))
  return json({ metadata: { total_size: bytes }, weight_map: Object.fromEntries(map) })
}

/** Tensors that are made of the same parameter follow each other: it is read once. */
function latestOf(read: (name: string) => Numbers): (name: string) => Numbers {
  let last: { name: string; values: Numbers } | undefined
  return name => {
    if (last?.name !== name) last = { name, values: read(name) }
    return last.values
  }
}

function writeShard(
  file: string,
  group: readonly Written[],
  numbersOf: (name: string) => Numbers,
  { files, like }: ExportOptions,
): void {
  const head = printHead(
    group.map(({ stored, dtype, shape }) => ({ name: stored, dtype, shape })),
    { format: 'pt' },
  )
  writing(file, () => files.write(file, head))
  for (const tensor of group) {
    const values = wholeTensor(tensor, numbersOf, like)
    writing(file, () => files.append(file, encodeNumbers(values, tensor.dtype)))
  }
}

/** Rows of positions that were not trained are those of the folder that is followed. */
function wholeTensor(
  { name, shape, parts }: Written,
  numbersOf: (name: string) => Numbers,
  like?: WeightFolder,
): Numbers {
  const isOpen = parts.some(({ place }) => place.open)
  const values = isOpen && like ? Float64Array.from(like.read(name, 0, sizeOf(shape))) : new Float64Array(sizeOf(shape))
  for (const { param, place } of parts) {
    const ours = numbersOf(param.name)
    const each = place.box.shape.reduce((n, size) => n * size, 1)
    const isSlice = each < ours.length
    scatter(place, isSlice ? ours.subarray(place.box.start[0] * each, (place.box.start[0] + 1) * each) : ours, values)
  }
  return values
}

/** What lies beside the weights and belongs to the tokenizer. */
const carriedTexts = ['tokenizer.json', 'vocab.json', 'merges.txt', ...textNames]

const torchNames: Readonly<Record<Float, string>> = {
  f32: 'float32',
  f64: 'float64',
  bf16: 'bfloat16',
  f16: 'float16',
}

function textsOf(
  { files, like, tokenizer, texts: said, dtype, edges = {} }: ExportOptions,
  config: Config,
): Record<string, string> {
  const carried = carriedTexts.flatMap(name => {
    const file = like && within(like.path, name)
    return file !== undefined && files.exists(file) ? [[name, files.read(file)] as const] : []
  })
  const { begin = edges.end, end } = edges // one that ends a text stands before the next
  const ends = { ...(begin && { bos_token_id: begin.id }), ...(end && { eos_token_id: end.id }) }
  const words = { ...(begin && { bos_token: begin.text }), ...(end && { eos_token: end.text }) }
  const own = {
    ...(tokenizer !== undefined && {
      'tokenizer.json': tokenizer,
      'tokenizer_config.json': json({ tokenizer_class: 'PreTrainedTokenizerFast', ...words }),
    }),
    'generation_config.json': json({ ...ends, use_cache: true }),
    ...said,
  }
  const texts = like ? Object.fromEntries(carried) : own
  return { ...texts, [configFile]: configText({ files, like, dtype }, config, ends) }
}

/** That of the folder that is followed, as it is, unless numbers are written in another dtype. */
function configText(
  { files, like, dtype }: Pick<ExportOptions, 'files' | 'like' | 'dtype'>,
  config: Config,
  ends: Config,
): string {
  if (like && !dtype) return files.read(within(like.path, configFile))
  const { torch_dtype: _, ...kept } = config
  return json({ ...kept, dtype: torchNames[dtype ?? 'f32'], ...(!like && ends) })
}
