/**
 * A Hugging Face folder: config.json, and safetensors in one file or in several with an index. Heads of files are read when
 * it is opened, numbers when they are asked for. Everything that is wrong with it is said at once.
 */
import { error, type Files, hasErrors, type Problem, ProblemsError, warning, within } from '../base/index.js'
import { type Numbers, openSafetensors, type Safetensors } from '../checkpoint/index.js'
import { fromHuggingFace, type ModelConfig } from '../model/index.js'
import { type MappedParam, type WeightMap, weightMap } from './map.js'
import { readNumbers } from './numbers.js'
import { type Place, sizeOf } from './place.js'
import { isModelType, type ModelType } from './tables.js'

/** An opened Hugging Face folder: its config, and where each of our parameters is stored. */
export interface WeightFolder {
  readonly path: string
  /** The contents of config.json. */
  readonly raw: Readonly<Record<string, unknown>>
  readonly config: ModelConfig
  readonly modelType: ModelType
  readonly map: WeightMap
  readonly warnings: readonly Problem[]
  readonly files: readonly string[]
  /** How the files store a parameter. */
  formOf(param: MappedParam): readonly Place[]
  /** The name a file has for a tensor, and its dtype there. */
  stored(tensor: string): StoredTensor | undefined
  /** Elements of a tensor. Throws an Error fit to print. */
  read(tensor: string, first: number, last: number): Numbers
}

/** Where a tensor lies, and what it is there. */
export interface StoredTensor {
  readonly name: string
  readonly file: string
  readonly dtype: string
  readonly shape: readonly number[]
}

export const configFile = 'config.json'
const indexFile = 'model.safetensors.index.json'
const onlyFile = 'model.safetensors'

/** Whether a path is such a folder, with or without numbers in it. */
export const isWeightFolder = (path: string, files: Pick<Files, 'exists'>): boolean =>
  files.exists(within(path, configFile)) && !files.exists(within(path, 'manifest.json'))

export interface OpenOptions {
  /** The number of learned position embeddings to use; by default all. */
  readonly seq?: number
}

/** Opens a Hugging Face folder. Throws if its tensors do not match the model of its config. */
export function openWeights(path: string, files: Files, { seq }: OpenOptions = {}): WeightFolder {
  const { raw, config, modelType, problems } = readConfig(path, files)
  const held = openFiles(path, files)
  const rows = rowsOf(held, config, seq)
  const map = weightMap(config, modelType, { seq: rows, halvesApart: raw.rope_interleave === false })
  const bare = (name: string) => (name.startsWith(map.prefix) ? name.slice(map.prefix.length) : name)
  const stored: WeightFolder['stored'] = tensor => {
    const name = [tensor, bare(tensor)].find(name => held.tensors.has(name))
    return name === undefined ? undefined : { name, ...held.tensors.get(name)! }
  }
  const formOf: WeightFolder['formOf'] = ({ forms }) =>
    forms.find(([first]) => stored(first.tensor) !== undefined) ?? forms[0]
  const found = [...held.problems, ...tensorProblems({ map, stored, formOf }, held, bare)]
  const wrong = found.filter(({ severity }) => severity === 'error')
  if (wrong.length > 0)
    throw new ProblemsError(
      wrong.map(problem => ({ ...problem, path: '' })),
      path,
    )
  return {
    ...{ path, raw, config, modelType, map, stored, formOf, files: [...held.files.keys()] },
    warnings: [...problems, ...found.filter(({ severity }) => severity === 'warning')],
    read(tensor, first, last) {
      const { name, file } = stored(tensor)!
      return readNumbers(held.files.get(file)!, name, { first, last, scales: scalesOf(name, held), raw })
    },
  }
}

/** Settings without which a model computes something else, whatever the sequence is. */
const otherNumbers: ReadonlySet<string> = new Set(
  ['window', 'scaling', 'ramp', 'scaled', 'groups', 'mlp-bias', 'output-bias', 'cross'].map(
    name => `model/ignored/${name}`,
  ),
)

/** What a plan may leave out, as no shape depends on it, numbers may not: they would be those of another model. */
function ofNumbers(problem: Problem): Problem {
  const { path, phrase, message } = problem
  if (phrase === undefined || !otherNumbers.has(phrase)) return problem
  const what = message.replace(/^ignored: /, '')
  return error('model/unsupported', path, `${what}; these weights would give different results`)
}

interface ReadConfig extends Pick<WeightFolder, 'raw' | 'config' | 'modelType'> {
  readonly problems: readonly Problem[]
}

function readConfig(path: string, files: Files): ReadConfig {
  const file = within(path, configFile)
  const refuse = (message: string) => new ProblemsError([error('weights/file', '', `${file}: ${message}`)])
  let raw: Record<string, unknown>
  try {
    raw = JSON.parse(files.read(file))
  } catch (e) {
    throw refuse(e instanceof SyntaxError ? 'is not valid JSON' : e instanceof Error ? e.message : String(e))
  }
  const { config, problems: found } = fromHuggingFace(raw)
  const modelType = String(raw?.model_type)
  const problems = found.map(ofNumbers)
  if (!config || !isModelType(modelType) || hasErrors(problems))
    throw new ProblemsError(problems.map(p => ({ ...p, message: `${file}: ${p.path}: ${p.message}` })))
  return {
    raw,
    config,
    modelType,
    problems: problems.map(p => ({ ...p, message: `${file}: ${p.path}: ${p.message}` })),
  }
}

interface Held {
  readonly files: ReadonlyMap<string, Safetensors>
  readonly tensors: ReadonlyMap<
    string,
    { readonly file: string; readonly dtype: string; readonly shape: readonly number[] }
  >
  readonly problems: readonly Problem[]
}

function openFiles(path: string, files: Files): Held {
  const names = fileNames(path, files)
  const problems: Problem[] = []
  const opened = new Map<string, Safetensors>()
  for (const name of new Set(Object.values(names.tensors))) {
    const file = within(path, name)
    try {
      const held = openSafetensors((begin, end) => files.readBytes(file, begin, end))
      if (files.readBytes(file, held.end - 1, held.end).length === 0 && held.end > 0)
        throw new Error('is truncated: it ends before its last tensor does')
      opened.set(name, held)
    } catch (e) {
      problems.push(error('weights/file', '', `${file}: ${e instanceof Error ? e.message : e}`))
    }
  }
  const tensors: [string, { file: string; dtype: string; shape: readonly number[] }][] = []
  for (const [file, held] of opened)
    for (const [name, { dtype, shape }] of held.tensors) tensors.push([name, { file, dtype, shape }])
  const there = new Map(tensors)
  for (const [name, file] of Object.entries(names.listed ? names.tensors : {}))
    if (opened.has(file) && there.get(name)?.file !== file)
      problems.push(
        error('weights/missing', '', `${within(path, indexFile)} lists ${name} in ${file}, where it is missing`),
      )
  return { files: opened, tensors: there, problems }
}

/** Tensor -> file, by the index; of a folder without one, anything -> the only file. */
function fileNames(path: string, files: Files): { tensors: Readonly<Record<string, string>>; listed: boolean } {
  const index = within(path, indexFile)
  if (files.exists(index)) {
    const problem = (message: string) => new ProblemsError([error('weights/file', '', `${index}: ${message}`)])
    let map: unknown
    try {
      map = JSON.parse(files.read(index)).weight_map
    } catch (e) {
      throw problem(e instanceof SyntaxError ? 'is not valid JSON' : e instanceof Error ? e.message : String(e))
    }
    if (typeof map !== 'object' || map === null || !Object.values(map).every(isFileName))
      throw problem('has no weight_map from tensors to files of its folder')
    return { tensors: map as Record<string, string>, listed: true } // its values were looked at
  }
  if (files.exists(within(path, onlyFile))) return { tensors: { '': onlyFile }, listed: false }
  const pickled = ['pytorch_model.bin', 'pytorch_model.bin.index.json'].some(name => files.exists(within(path, name)))
  throw new ProblemsError([
    error(
      'weights/file',
      '',
      `${path} has neither ${onlyFile} nor ${indexFile}`,
      pickled ? 'load it with transformers and call save_pretrained, which writes safetensors' : undefined,
    ),
  ])
}

/** Never a path out of the folder. */
const isFileName = (name: unknown): boolean => typeof name === 'string' && /^[\w-][\w.-]*$/.test(name)

/** Rows of learned positions to take: no more than there are. */
function rowsOf({ tensors }: Held, config: ModelConfig, seq: number | undefined): number {
  if (config.family !== 'gpt') return seq ?? 1
  const { shape = [] } = tensors.get('transformer.wpe.weight') ?? tensors.get('wpe.weight') ?? {}
  return Math.min(seq ?? Number.POSITIVE_INFINITY, shape[0] ?? config.positions ?? 1)
}

type Found = Pick<WeightFolder, 'map' | 'stored' | 'formOf'>

function tensorProblems({ map, stored, formOf }: Found, held: Held, bare: (name: string) => string): Problem[] {
  const used = new Set<string>()
  const problems = map.params.flatMap(param =>
    formOf(param).flatMap((place): Problem[] => {
      const { name } = stored(place.tensor) ?? {}
      if (name === undefined)
        return [error('weights/missing', '', `missing tensor ${place.tensor}, needed for ${param.name}`)]
      used.add(name)
      const { shape, dtype } = held.tensors.get(name)!
      return [...shapeProblem(param, place, shape), ...dtypeProblem(name, dtype, held)]
    }),
  )
  const left = [...held.tensors.keys()].filter(name => !used.has(name) && !isSpare(name, map, held, bare))
  return [...once(problems), ...unexpected(left, map, bare)]
}

const once = (problems: readonly Problem[]): Problem[] => [...new Map(problems.map(p => [p.message, p])).values()]

const shown = (shape: readonly number[]): string => shape.join(' x ') || 'one number'

function shapeProblem(param: MappedParam, { tensor, shape, open, axes }: Place, there: readonly number[]): Problem[] {
  const [rows, ...rest] = there
  const isFine = open ? rows >= shape[0] && shown(rest) === shown(shape.slice(1)) : shown(there) === shown(shape)
  const sizes = param.dims.map(({ name, size }) => `${name} ${size}`).join(', ')
  const message = `tensor ${tensor} is ${shown(there)}, but ${shown(shape)} by config.json: ${axes} of ${param.name}, where ${sizes}`
  return isFine ? [] : [error('weights/shape', '', message)]
}

const known = ['F64', 'F32', 'F16', 'BF16']

function dtypeProblem(name: string, dtype: string, held: Held): Problem[] {
  if (known.includes(dtype) || (dtype === 'F8_E4M3' && scalesOf(name, held))) return []
  const hint = dtype.startsWith('F8') ? `there is no ${name}_scale_inv to scale it with` : undefined
  return [error('weights/dtype', '', `tensor ${name} is ${dtype}, not ${known.join(', ')}`, hint)]
}

/** Scales of the blocks of a tensor of 8-bit numbers (DeepSeek-V3). */
function scalesOf(name: string, { tensors, files }: Held): { columns: number; values: Numbers } | undefined {
  const scale = tensors.get(`${name}_scale_inv`)
  if (!scale) return undefined
  const { values, shape } = files.get(scale.file)!.tensor(`${name}_scale_inv`)
  return { columns: shape[1] ?? 1, values }
}

/** What a file may hold beside the parameters: constants, scales, and the head that is the embedding. */
const isSpare = (
  name: string,
  { isConstant, config }: WeightMap,
  held: Held,
  bare: (name: string) => string,
): boolean =>
  isConstant(bare(name)) ||
  (name === 'lm_head.weight' && config.family !== 'mlp' && config.tied) ||
  (name.endsWith('_scale_inv') && held.tensors.has(name.slice(0, -'_scale_inv'.length)))

function unexpected(names: readonly string[], { config }: WeightMap, bare: (name: string) => string): Problem[] {
  const further = names.filter(name => Number(/^layers\.(\d+)\./.exec(bare(name))?.[1] ?? -1) >= config.layers)
  const rest = names.filter(name => !further.includes(name))
  return [
    ...(further.length > 0
      ? [
          warning(
            'weights/unexpected',
            '',
            `${further.length} tensors of layers from ${config.layers} on are ignored: config.json has ${config.layers} layers`,
          ),
        ]
      : []),
    ...rest.map(name => error('weights/unexpected', '', `unexpected tensor ${name}: it is not in the model`)),
  ]
}

/** All parameters counted. */
export const elementsIn = ({ map, formOf }: Pick<WeightFolder, 'map' | 'formOf'>): number =>
  map.params.flatMap(formOf).reduce((sum, { shape }) => sum + sizeOf(shape), 0)
