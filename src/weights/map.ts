/** Our parameters of a model, and where each lies in the tensors of a Hugging Face folder. */
import type { Dim } from '../base/index.js'
import { buildModel, type ModelConfig } from '../model/index.js'
import { type Place, placeOf, sliceBox, slices, wholeBox } from './place.js'
import { halvesApart, type ModelType, manyQueries, type Row, type Table, tables } from './tables.js'

export interface MappedParam {
  /** Our name, and dims. */
  readonly name: string
  readonly dims: readonly Dim[]
  /** The ways in which files hold it, the one to write first: one place, or one for each expert. */
  readonly forms: readonly (readonly Place[])[]
}

export interface WeightMap {
  readonly modelType: ModelType
  readonly config: ModelConfig
  readonly prefix: string
  readonly params: readonly MappedParam[]
  /** Of all dims that places may name. */
  readonly sizes: Readonly<Record<string, number>>
  /** Whether a tensor, named without the prefix, is an unused constant. */
  readonly isConstant: (name: string) => boolean
}

export interface MapOptions {
  /** Learned positions have so many rows. */
  readonly seq: number
  /** Pairs that turn lie half a dim apart: `rope_interleave: false` of latent attention. */
  readonly halvesApart?: boolean
}

/** Throws a plain Error where the family has no name for a parameter of the model: its config is of another family. */
export function weightMap(config: ModelConfig, modelType: ModelType, options: MapOptions): WeightMap {
  const table = tableOf(config, modelType, options)
  const { dims, params } = buildModel(config, { batch: 1, seq: options.seq })
  return {
    modelType,
    config,
    prefix: table.prefix,
    params: params.map(param => mapped(param, table, dims)),
    sizes: dims,
    isConstant: name => table.constants.test(name),
  }
}

function tableOf(config: ModelConfig, modelType: ModelType, options: MapOptions): Table {
  if (options.halvesApart) return halvesApart
  return modelType === 'gpt_bigcode' && config.family === 'gpt' && config.kvHeads > 1 ? manyQueries : tables[modelType]
}

function mapped(
  param: { readonly name: string; readonly dims: readonly Dim[] },
  table: Table,
  sizes: Readonly<Record<string, number>>,
): MappedParam {
  const [, layer, local] = /^layers\.(\d+)\.(.*)$/.exec(param.name) ?? []
  // Rows of learned positions are those of a sequence, or of documents.
  const dims = param.dims.map(dim => (dim.name === 'seq' ? { ...dim, name: 'position' } : dim))
  const candidates = layer === undefined ? table.others : table.layer
  const named = (theirs: string) => (layer === undefined ? theirs : `${table.prefix}${table.layers}${layer}.${theirs}`)
  const forms = candidates
    .filter(row => row.ours === (local ?? param.name) && names(row, dims))
    .map(row => placesOf({ ...row, theirs: named(row.theirs) }, dims, sizes))
  if (forms.length === 0) throw new Error(`there is no tensor for ${param.name}`)
  return { name: param.name, dims: param.dims, forms }
}

const apart = '{expert}'

/** Whether a row has a place for every dim. */
const names = ({ theirs, axes }: Row, dims: readonly Dim[]): boolean =>
  dims.every(({ name }) =>
    name === 'expert' && theirs.includes(apart) ? true : new RegExp(`\\b${name}\\b`).test(axes),
  )

function placesOf({ theirs, axes }: Row, dims: readonly Dim[], sizes: Readonly<Record<string, number>>): Place[] {
  if (!theirs.includes(apart)) return [{ ...placeOf({ tensor: theirs, axes }, dims, sizes), box: wholeBox(dims) }]
  return Array.from({ length: slices(dims) }, (_, expert) => ({
    ...placeOf({ tensor: theirs.replace(apart, String(expert)), axes }, dims.slice(1), sizes),
    box: sliceBox(dims, expert),
  }))
}

/** The tensors that are written: each with its shape and the parameters it is made of. */
export interface MappedTensor {
  readonly name: string
  readonly shape: readonly number[]
  readonly parts: readonly { readonly param: MappedParam; readonly place: Place }[]
}

/** `formOf` chooses among the forms of a parameter. */
export function tensorsOf(
  { params }: WeightMap,
  formOf: (param: MappedParam) => readonly Place[] = ({ forms }) => forms[0],
): MappedTensor[] {
  const tensors = new Map<string, { shape: readonly number[]; parts: { param: MappedParam; place: Place }[] }>()
  for (const param of params)
    for (const place of formOf(param)) {
      const known = tensors.get(place.tensor) ?? { shape: place.shape, parts: [] }
      known.parts.push({ param, place })
      tensors.set(place.tensor, known)
    }
  return [...tensors].map(([name, tensor]) => ({ name, ...tensor }))
}
