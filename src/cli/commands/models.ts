/** lockstep models: the model presets, and the sizes of each. */
import { ProblemsError, scaled, showBytes, showCount, showWhole, table, wrapped } from '../../base/index.js'
import {
  flopsDefinition,
  ModelConfig,
  type ModelSizes,
  type PresetName,
  partsOfModel,
  presetNames,
  presets,
  sizesOf,
  weightTypes,
} from '../../model/index.js'
import { modelNamed } from '../../plan/index.js'
import type { Io } from '../io.js'
import { showProblems } from '../text/problems.js'

export interface ModelsOptions {
  readonly seq?: number
  readonly json?: boolean
}

export function modelsCommand(name: string | undefined, options: ModelsOptions, io: Io): number {
  if (name !== undefined) return oneModel(name, options, io)
  const models = presetNames.map(preset => listed(preset, options))
  io.out(
    options.json
      ? `${JSON.stringify(Object.fromEntries(models.map(({ preset, model, sizes }) => [preset, { ...model, ...sizes }])), null, 2)}\n`
      : listText(models),
  )
  return 0
}

interface Listed {
  readonly preset: PresetName
  readonly model: ModelConfig
  readonly sizes: ModelSizes
}

function listed(preset: PresetName, { seq }: ModelsOptions): Listed {
  const model = ModelConfig.parse(presets[preset])
  return { preset, model, sizes: sizesOf(model, seq) }
}

function listText(models: readonly Listed[]): string {
  const rows = models.map(({ preset, model, sizes: { parameters, active, flops, weights, seq, cache } }) => [
    ...[preset, showCount(parameters), active === parameters ? '' : showCount(active)],
    ...[scaled(flops.training), showBytes(weights.bf16), seq, showBytes(cache)],
    ...[model.layers, model.embed],
  ])
  const header = ['name', 'parameters', 'active', 'FLOPs/token', 'in bf16', 'context', 'KV/token', 'layers']
  return [
    table([...header, 'embed'], rows),
    ...wrapped(
      `Training FLOPs/token at that context: ${flopsDefinition}. KV/token: KV cache of all layers in bf16.`,
      undefined,
      '',
    ),
    '`lockstep models NAME` shows one. In a job: `model: NAME` or `model: { preset: NAME, layers: 4 }`.\n',
  ].join('\n')
}

function oneModel(name: string, { seq, json }: ModelsOptions, io: Io): number {
  const { model, problems } = modelNamed(name, path => io.read(path))
  if (!model) throw new ProblemsError(problems)
  io.err(showProblems(problems, io))
  const sizes = sizesOf(model, seq)
  const parts = partsOfModel(model, sizes.seq)
  io.out(json ? `${JSON.stringify({ name, ...model, ...sizes, parts }, null, 2)}\n` : detailText(name, model, sizes))
  return 0
}

function detailText(name: string, model: ModelConfig, sizes: ModelSizes): string {
  const { seq, parameters, active, flops, weights, trained, cache } = sizes
  const parts = partsOfModel(model, seq).map(part => [
    part.name,
    part.count,
    showCount(part.parameters),
    `${((100 * part.parameters) / parameters).toFixed(1)} %`,
    part.dims,
  ])
  const facts: (readonly [string, string])[] = [
    ['parameters', `${showWhole(parameters)} (${showCount(parameters)})`],
    ['active', `${showWhole(active)} per token`],
    ['context', `${seq} tokens`],
    ['FLOPs/token', `${scaled(flops.training)} training, ${scaled(flops.forward)} forward (${flopsDefinition})`],
    ['weights', weightTypes.map(type => `${showBytes(weights[type])} in ${type}`).join(', ')],
    ['training', `${showBytes(trained)} in bf16 with AdamW (18 bytes/parameter), without activations`],
    ['KV cache', `${showBytes(cache)}/token in bf16, ${showBytes(cache * seq)} for ${seq} tokens`],
  ]
  return [
    ...wrapped(`${name}: ${sizesText(model)}`),
    '',
    ...facts.flatMap(([what, text]) => wrapped(`${what.padEnd(14)} ${text}`, undefined, ' '.repeat(15))),
    '',
    table(['tensor', 'count', 'parameters', 'share', 'dims'], parts),
    '',
  ].join('\n')
}

/** The config as a job writes it, without what is as usual. */
const sizesText = (model: ModelConfig): string =>
  `{ ${Object.entries(model)
    .filter(([, value]) => value !== false)
    .map(([key, value]) => `${key}: ${typeof value === 'object' ? inner(value) : value}`)
    .join(', ')} }`

const inner = (value: object): string =>
  JSON.stringify(value)
    .replaceAll('"', '')
    .replaceAll(/([:,])/g, '$1 ')
