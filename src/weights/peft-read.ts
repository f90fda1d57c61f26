/**
 * Adapters of PEFT read: adapter_config.json and adapter_model.safetensors, beside weights of the model they were trained for. Modules may
 * have ranks and scales of their own there: here all have the greatest rank, narrower ones with zeros, and what one scale cannot say is
 * multiplied into B.
 */
import { type Dim, either, error, type Files, type Problem, ProblemsError, within } from '../base/index.js'
import { type Checkpoint, copyShared, type Numbers, openSafetensors, wholeOf } from '../checkpoint/index.js'
import { type Adapters, adapterNames, adapterTargets, targetOf } from '../model/index.js'
import { type MappedParam, tensorsOf, type WeightMap } from './map.js'
import { adapterFiles, expertsIn, type ModulePart, partOf, sidesOf, splitDims } from './peft.js'
import { gathered, placeOf } from './place.js'

/** LoRA adapters read from a folder that PEFT saved. */
export interface AdapterFolder {
  readonly path: string
  readonly adapters: Adapters
  /** Both factors of each adapted matrix, by our parameter names. */
  readonly tensors: ReadonlyMap<string, AdapterFactor>
}

interface AdapterFactor {
  readonly dims: readonly Dim[]
  readonly values: Numbers
}

/** One of their modules, and those of our matrices it is made of. */
interface AdaptedModule {
  readonly name: string
  readonly parts: readonly ModulePart[]
  readonly a: Stored
  readonly b: Stored
  readonly scale: number
}

interface Stored {
  readonly shape: readonly number[]
  readonly values: Numbers
}

export const isAdapterFolder = (path: string, files: Pick<Files, 'exists'>): boolean =>
  files.exists(within(path, adapterFiles.config))

/** Opens LoRA adapters that PEFT saved. Throws if they do not fit the model. */
export function openAdapters(path: string, files: Files, map: WeightMap): AdapterFolder {
  const config = configOf(path, files)
  const wrong = configProblems(config)
  if (wrong.length > 0) throw new ProblemsError(wrong.map(problem => located(problem, path)))
  const { modules, problems } = modulesOf(storedIn(path, files), map, config)
  if (problems.length > 0) throw new ProblemsError(problems.map(problem => located(problem, path)))
  const rank = Math.max(...modules.map(module => rankOf(module, map.sizes)))
  const scale = modules[0].scale
  const tensors = new Map<string, AdapterFactor>()
  for (const module of modules) for (const factor of factorsOf(module, rank, scale, map.sizes)) put(tensors, factor)
  const found = new Set(modules.flatMap(({ parts }) => parts.map(({ param }) => targetOf(param.name))))
  const targets = adapterTargets.filter(target => found.has(target))
  return {
    path,
    adapters: { rank, alpha: scale * rank, targets, dropout: 0 },
    tensors: filledUp(tensors, map, targets),
  }
}

const located = (problem: Problem, path: string): Problem => ({ ...problem, message: `${path}: ${problem.message}` })

type PeftConfig = Readonly<Record<string, unknown>>

function configOf(path: string, files: Files): PeftConfig {
  const file = within(path, adapterFiles.config)
  if (!files.exists(file))
    throw new ProblemsError([
      error('weights/file', '', `${path} has no ${adapterFiles.config}`, 'pass a folder that PEFT saved'),
    ])
  try {
    return Object(JSON.parse(files.read(file)))
  } catch {
    throw new ProblemsError([error('weights/file', '', `${file} is not valid JSON`)])
  }
}

/** Kinds of starts that change the base itself. */
const changing = /^(pissa|olora|corda|loftq)/

function configProblems(config: PeftConfig): Problem[] {
  const refuse = (key: string, why: string) => [
    error('weights/adapters', '', `${key} ${JSON.stringify(config[key])}: ${why}`),
  ]
  const {
    peft_type: kind,
    use_dora: dora,
    bias = 'none',
    lora_bias: biased,
    modules_to_save: whole,
    init_lora_weights: start,
  } = config
  return [
    ...(kind === 'LORA' ? [] : refuse('peft_type', 'only LORA is supported')),
    ...(dora ? refuse('use_dora', 'DoRA is not supported') : []),
    ...(bias === 'none' ? [] : refuse('bias', 'trained biases are not supported')),
    ...(biased ? refuse('lora_bias', 'adapter biases are not supported') : []),
    ...(Array.isArray(whole) && whole.length > 0
      ? refuse('modules_to_save', 'trained modules besides adapters are not supported')
      : []),
    ...(typeof start === 'string' && changing.test(start)
      ? refuse('init_lora_weights', 'it changes the base weights: save the adapters converted to LoRA')
      : []),
  ]
}

function storedIn(path: string, files: Files): ReadonlyMap<string, Stored> {
  const file = within(path, adapterFiles.weights)
  if (!files.exists(file))
    throw new ProblemsError([
      error('weights/file', '', `${path} has no ${adapterFiles.weights}`, 'save it with safe_serialization=True'),
    ])
  try {
    const held = openSafetensors((begin, end) => files.readBytes(file, begin, end))
    return new Map([...held.tensors.keys()].map(name => [name, held.tensor(name)] as const))
  } catch (e) {
    throw new ProblemsError([error('weights/file', '', `${file}: ${e instanceof Error ? e.message : String(e)}`)])
  }
}

const named = /^base_model\.model\.(.+)\.lora_([AB])(?:\.\w+)?\.weight$/

function modulesOf(
  stored: ReadonlyMap<string, Stored>,
  map: WeightMap,
  config: PeftConfig,
): { modules: AdaptedModule[]; problems: Problem[] } {
  const factors = new Map<string, { A?: Stored; B?: Stored }>()
  const odd: string[] = []
  for (const [key, tensor] of stored) {
    const [, name, side] = named.exec(key) ?? []
    if (name === undefined) odd.push(key)
    else factors.set(name, { ...factors.get(name), [side]: tensor })
  }
  const places = new Map(tensorsOf(map).map(({ name, parts }) => [name.replace(/\.weight$/, ''), parts] as const))
  const problems = odd
    .slice(0, 1)
    .map(key => error('weights/unexpected', '', `${key} is not an adapter factor of a matrix${more(odd)}`))
  if (stored.size === 0) problems.push(error('weights/adapters', '', `${adapterFiles.weights} has no tensors`))
  const modules = [...factors].flatMap(([name, { A: a, B: b }]): AdaptedModule[] => {
    const parts = (places.get(name) ?? []).map(partOf)
    const wrong = moduleProblem(name, parts, a, b)
    if (wrong !== undefined) problems.push(error('weights/adapters', '', wrong))
    return wrong === undefined && a && b ? [{ name, parts, a, b, scale: scaleOf(name, b.shape[1], config) }] : []
  })
  return { modules, problems }
}

const more = (all: readonly unknown[]): string => (all.length > 1 ? `, and ${all.length - 1} more` : '')

/** undefined: it is whole. */
function moduleProblem(
  name: string,
  parts: AdaptedModule['parts'],
  a: Stored | undefined,
  b: Stored | undefined,
): string | undefined {
  if (!a || !b) return `${name} has lora_${a ? 'A' : 'B'} alone`
  if (parts.length === 0) return `the model has no ${name}`
  const without = parts.filter(({ param }) => targetOf(param.name) === undefined)
  if (without.length > 0)
    return `${name}: ${either(
      without.map(({ param }) => param.name),
      'and',
    )} cannot have adapters here`
  const [inputs, outputs] = [0, 1].map(side =>
    parts.reduce((sum, { param, axes }) => (side === 0 ? widthOf(param, axes, 0) : sum + widthOf(param, axes, 1)), 0),
  )
  const wanted = [a.shape[0], inputs, outputs, a.shape[0]].join()
  const held = [...a.shape, ...b.shape].join()
  return held === wanted
    ? undefined
    : `${name} is [${a.shape}] and [${b.shape}], which does not fit ${inputs} inputs and ${outputs} outputs`
}

/** Elements of what enters a matrix, or of what leaves it. */
const widthOf = (param: MappedParam, axes: string, side: 0 | 1): number =>
  splitDims(param, sidesOf(axes, param)[0])[side].reduce((n, { size }) => n * size, 1)

function scaleOf(name: string, rank: number, config: PeftConfig): number {
  const patterns = Object.entries(Object(config.alpha_pattern))
  const own = patterns.find(([key]) => name === key || name.endsWith(`.${key}`) || isPattern(key, name))?.[1]
  const alpha = Number(own ?? config.lora_alpha ?? rank)
  return alpha / (config.use_rslora ? Math.sqrt(rank) : rank)
}

function isPattern(key: string, name: string): boolean {
  try {
    return new RegExp(`^(?:.*\\.)?(?:${key})$`).test(name)
  } catch {
    return false
  }
}

/** Whether each matrix of a module has a share of the rank for itself, as our own files have it. */
function isApart({ name, parts, b }: AdaptedModule, sizes: Sizes): boolean {
  const [outputs, rank] = b.shape
  if (parts.length === 1 || rank % parts.length !== 0) return false
  const share = rank / parts.length
  const numbers = Float64Array.from({ length: outputs }, (_, row) => row)
  return parts.every(({ param, axes }, i) => {
    const [given, left] = sidesOf(axes, param)
    const rows = taken({ tensor: name, axes: left }, splitDims(param, given)[1], sizes, numbers)
    const isOwn = (column: number) => Math.floor(column / share) === i
    return rows.every(row => b.values.subarray(row * rank, (row + 1) * rank).every((v, at) => v === 0 || isOwn(at)))
  })
}

type Sizes = WeightMap['sizes']

/** The numbers of one of our tensors, of all that lie there. */
const taken = (at: { tensor: string; axes: string }, dims: readonly Dim[], sizes: Sizes, all: Numbers) =>
  gathered({ ...placeOf(at, dims, sizes), box: { start: [], shape: [] } }, all, 0)

const rankOf = (module: AdaptedModule, sizes: Sizes): number =>
  module.b.shape[1] / (isApart(module, sizes) ? module.parts.length : 1)

/** A factor of one of our matrices, or of that of one expert. */
interface NamedFactor extends AdapterFactor {
  readonly name: string
  readonly of: Pick<ModulePart, 'param' | 'expert'>
}

/** Of experts that have no adapters what is added is nothing. */
function put(tensors: Map<string, AdapterFactor>, { name, dims, values, of }: NamedFactor): void {
  if (of.expert === undefined) return void tensors.set(name, { dims, values })
  const all = { dims: [of.param.dims[0], ...dims], values: new Float64Array(expertsIn(of.param) * values.length) }
  const known = tensors.get(name) ?? all
  known.values.set(values, of.expert * values.length)
  tensors.set(name, known)
}

/** Both factors of each matrix, by name; of one that all matrices share each has a copy. */
function factorsOf(module: AdaptedModule, rank: number, scale: number, sizes: Sizes): NamedFactor[] {
  const own = rankOf(module, sizes)
  const apart = own < module.b.shape[1]
  return module.parts.flatMap(({ param, axes, expert }, i) => {
    const wide = apart ? `(${i}/${module.parts.length} adapterRank)` : 'adapterRank'
    const [given, left] = sidesOf(axes, param)
    const [inputs, outputs] = splitDims(param, given)
    const names = adapterNames(param.name)
    const take = (axes: string, dims: readonly Dim[], { values }: Stored) =>
      taken({ tensor: module.name, axes }, dims, sizes, values)
    const narrow = { name: 'adapterRank', size: own }
    const dim = { name: 'adapterRank', size: rank }
    const a = take(`${wide} ${given}`, [...inputs, narrow], module.a)
    const b = take(`${left} ${wide}`, [narrow, ...outputs], module.b).map(value => value * (module.scale / scale))
    const of = { param, ...(expert !== undefined && { expert }) }
    return [
      { name: names.a, dims: [...inputs, dim], values: widened(a, own, rank), of },
      { name: names.b, dims: [dim, ...outputs], values: lengthened(b, own, rank), of },
    ]
  })
}

/** Rows of `from` numbers with zeros up to `to`. */
function widened(values: Float64Array, from: number, to: number): Float64Array {
  if (from === to) return values
  const wide = new Float64Array((values.length / from) * to)
  for (let row = 0; row < values.length / from; row++) wide.set(values.subarray(row * from, (row + 1) * from), row * to)
  return wide
}

function lengthened(values: Float64Array, from: number, to: number): Float64Array {
  const long = new Float64Array((values.length / from) * to)
  long.set(values)
  return long
}

/** Layers that PEFT left out have adapters that add nothing. */
function filledUp(
  tensors: AdapterFolder['tensors'],
  { params }: WeightMap,
  targets: Adapters['targets'],
): AdapterFolder['tensors'] {
  const like = new Map([...tensors].map(([name, { dims }]) => [name.replace(/^layers\.\d+\./, ''), dims] as const))
  const missing = params.flatMap(({ name }) => {
    const target = targetOf(name)
    if (target === undefined || !targets.includes(target)) return []
    return Object.values(adapterNames(name)).flatMap(own => {
      const dims = like.get(own.replace(/^layers\.\d+\./, ''))
      return dims && !tensors.has(own)
        ? [[own, { dims, values: new Float64Array(dims.reduce((n, { size }) => n * size, 1)) }] as const]
        : []
    })
  })
  return new Map([...tensors, ...missing])
}

/** A weight source with LoRA adapters added to it. */
export function besideWeights(weights: Checkpoint, { adapters, tensors }: AdapterFolder): Checkpoint {
  const own = new Map<string, AdapterFactor>([...tensors].map(([name, tensor]) => [`param.${name}`, tensor]))
  return {
    ...weights,
    tensors: new Map([...weights.tensors, ...[...own].map(([name, { dims }]) => [name, dims] as const)]),
    tensor: name => (own.has(name) ? Float64Array.from(own.get(name)!.values) : weights.tensor(name)),
    fill(name, targets) {
      const held = own.get(name)
      if (!held) return weights.fill(name, targets)
      for (const target of targets) copyShared(wholeOf(held.dims), held.values, target, target.values)
      return []
    },
    job: () => {
      const job = Object(weights.job())
      return { ...job, training: { ...job.training, lora: adapters } }
    },
  }
}
