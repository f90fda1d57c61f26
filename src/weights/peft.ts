/**
 * Adapters by themselves, as PEFT keeps them: adapter_config.json and adapter_model.safetensors, in which a module has lora_A
 * [rank, what enters] and lora_B [what leaves, rank]. Where several of our matrices are one module there (c_attn of GPT-2), its
 * adapter is as wide as theirs together, each of which reaches its own part of what leaves: the same sum. Experts are modules of their own.
 */
import { type Dim, error, type Problem, ProblemsError, within, writing } from '../base/index.js'
import { type Float, type Numbers, printHead } from '../checkpoint/index.js'
import { type Adapters, adapterNames } from '../model/index.js'
import { adaptedIn, tensorOf } from './adapters.js'
import { json } from './json.js'
import { type MappedParam, type MappedTensor, tensorsOf, type WeightMap } from './map.js'
import { encodeNumbers } from './numbers.js'
import { placeOf, scatter, sizeOf } from './place.js'
import { type Exported, type ExportOptions, folderProblems, type Trained, targetOf, type Weights } from './write.js'

export const adapterFiles = { config: 'adapter_config.json', weights: 'adapter_model.safetensors' } as const

/** A module there, and those of our matrices with adapters that it is made of. */
interface Module {
  readonly name: string
  readonly parts: readonly ModulePart[]
}

/** One of our matrices, or of experts that of one of them, and how it is written there. */
export interface ModulePart {
  readonly param: MappedParam
  readonly axes: string
  readonly expert?: number
}

export const partOf = ({ param, place }: MappedTensor['parts'][number]): ModulePart => ({
  ...{ param, axes: place.axes },
  ...(param.dims[0].name === 'expert' && { expert: place.box.start[0] }),
})

/** How many matrices a parameter is: one, or one for each expert. */
export const expertsIn = ({ dims }: Pick<MappedParam, 'dims'>): number => (dims[0].name === 'expert' ? dims[0].size : 1)

export interface AdapterExport extends ExportOptions {
  /** What they were trained beside, as PEFT is to find it. */
  readonly base?: string | undefined
}

/** Throws all that keeps them from being written, before anything is. */
export function exportAdapters(
  weights: Weights,
  trained: Trained,
  adapters: Adapters,
  options: AdapterExport,
): Exported {
  const { files, out, like, dtype = 'f32', average = false } = options
  const { map, problems } = targetOf(trained, like)
  const modules = modulesOf(map, new Set(adaptedIn(weights)))
  const wrong: Problem[] = [
    ...(modules.length > 0 ? [] : [error('weights/adapters', '', 'the checkpoint has no adapters')]),
    ...folderProblems(out, files),
  ]
  if (wrong.length > 0) throw new ProblemsError(wrong)
  const numbersOf = (param: string) => weights.tensor(tensorOf(weights, param, average))
  const tensors = modules.flatMap(module => tensorsOfModule(module, adapters, map.sizes, numbersOf))
  const config = configOf(map, modules, adapters, options.base ?? like?.path)
  writing(out, () => files.makeFolder(out))
  const file = within(out, adapterFiles.weights)
  writing(file, () => files.write(file, headOf(tensors, dtype)))
  for (const { values } of tensors) writing(file, () => files.append(file, encodeNumbers(values, dtype)))
  writing(within(out, adapterFiles.config), () => files.write(within(out, adapterFiles.config), json(config)))
  return {
    files: [adapterFiles.weights, adapterFiles.config],
    modelType: map.modelType,
    tensors: tensors.length,
    bytes: tensors.reduce((sum, { values }) => sum + encodeNumbers(values, dtype).length, 0),
    warnings: problems,
  }
}

function modulesOf(map: WeightMap, adapted: ReadonlySet<string>): Module[] {
  return tensorsOf(map).flatMap(({ name, parts }) => {
    const own = parts.filter(({ param }) => adapted.has(param.name))
    const module = {
      name: name.replace(/\.weight$/, ''),
      parts: own.map(partOf),
    }
    return own.length > 0 ? [module] : []
  })
}

interface AdapterTensor {
  readonly name: string
  readonly shape: readonly number[]
  readonly values: Float64Array
}

/** '(kvHeads headDim) embed' of a matrix that sums over embed: `adapterRank embed` and `(kvHeads headDim) adapterRank`. */
function tensorsOfModule(
  { name, parts }: Module,
  { rank }: Adapters,
  sizes: WeightMap['sizes'],
  numbersOf: (param: string) => Numbers,
): AdapterTensor[] {
  const made = { a: new Map<string, AdapterTensor>(), b: new Map<string, AdapterTensor>() }
  for (const [i, { param, axes, expert = 0 }] of parts.entries()) {
    const wide = parts.length > 1 ? `(${i}/${parts.length} adapterRank)` : 'adapterRank'
    const [given, left] = sidesOf(axes, param)
    const { a, b } = adapterNames(param.name)
    const dim = { name: 'adapterRank', size: rank }
    const [inputs, outputs] = splitDims(param, given)
    const sides = [
      { made: made.a, tensor: `${name}.lora_A.weight`, axes: `${wide} ${given}`, dims: [...inputs, dim], of: a },
      { made: made.b, tensor: `${name}.lora_B.weight`, axes: `${left} ${wide}`, dims: [dim, ...outputs], of: b },
    ]
    for (const side of sides) {
      const place = { ...placeOf(side, side.dims, sizes), box: { start: [], shape: [] } }
      const known = side.made.get(side.tensor) ?? {
        ...{ name: `base_model.model.${side.tensor}`, shape: place.shape },
        values: new Float64Array(sizeOf(place.shape)),
      }
      side.made.set(side.tensor, known)
      scatter(place, ofExpert(numbersOf(side.of), expert, expertsIn(param)), known.values)
    }
  }
  return [...made.a.values(), ...made.b.values()]
}

/** The numbers of one of so many. */
const ofExpert = (all: Numbers, expert: number, experts: number): Numbers =>
  all.subarray((expert * all.length) / experts, ((expert + 1) * all.length) / experts)

const mentions = (axis: string, dim: string): boolean => new RegExp(`\\b${dim}\\b`).test(axis)

/** Our dims of one matrix. */
const matrixDims = ({ dims }: Pick<MappedParam, 'dims'>): readonly Dim[] => dims.filter(({ name }) => name !== 'expert')

/** Our dims that enter a matrix, those of the axis that is summed over, and those that leave it. */
export const splitDims = (
  param: MappedParam,
  given: string,
): readonly [inputs: readonly Dim[], outputs: readonly Dim[]] => [
  matrixDims(param).filter(({ name }) => mentions(given, name)),
  matrixDims(param).filter(({ name }) => !mentions(given, name)),
]

/** The axis of a matrix that is summed over, and the other. Our matrices have what they sum over first. */
export function sidesOf(axes: string, param: MappedParam): readonly [given: string, left: string] {
  const [first, second] = axes.match(/\([^)]*\)|\S+/g) as string[] // a matrix has two
  return mentions(first, matrixDims(param)[0].name) ? [first, second] : [second, first]
}

const headOf = (tensors: readonly AdapterTensor[], dtype: Float) =>
  printHead(
    tensors.map(({ name, shape }) => ({ name, dtype, shape })),
    { format: 'pt' },
  )

function configOf(map: WeightMap, modules: readonly Module[], adapters: Adapters, base: string | undefined) {
  const { rank, alpha, dropout } = adapters
  const named = new Map(modules.map(({ name, parts }) => [shortName(map, modules, name), parts.length]))
  const wider = [...named].filter(([, parts]) => parts > 1)
  const times = (of: number) => Object.fromEntries(wider.map(([name, parts]) => [name, parts * of]))
  return {
    ...{ peft_type: 'LORA', task_type: 'CAUSAL_LM', base_model_name_or_path: base ?? null, inference_mode: true },
    ...{ r: rank, lora_alpha: alpha, lora_dropout: dropout, target_modules: [...named.keys()], bias: 'none' },
    ...{ rank_pattern: times(rank), alpha_pattern: times(alpha), use_rslora: false, use_dora: false },
    // GPT-2 keeps its matrices the other way round.
    ...{ fan_in_fan_out: map.modelType === 'gpt2', modules_to_save: null },
  }
}

/** The last word of a module's name; two, where modules that have no adapters, or wider ones, end in the same. */
function shortName(map: WeightMap, modules: readonly Module[], name: string): string {
  const words = (count: number) => name.split('.').slice(-count).join('.')
  const others = tensorsOf(map).filter(tensor => !modules.some(module => `${module.name}.weight` === tensor.name))
  const isTheirs = others.some(other => other.name.endsWith(`.${words(1)}.weight`))
  const wide = modules.find(module => module.name === name)?.parts.length
  const isAnother = modules.some(module => module.name.endsWith(`.${words(1)}`) && module.parts.length !== wide)
  return isTheirs || isAnother ? words(2) : words(1)
}
