/** lockstep presets: the models that a job can name, with their sizes. */
import { showCount, table } from '../../base/index.js'
import { ModelConfig, type PresetName, parametersOf, presetNames, presets } from '../../model/index.js'
import type { Io } from '../io.js'

export function presetsCommand({ json }: { json?: boolean }, io: Io): number {
  const models = presetNames.map(name => ({ name, model: ModelConfig.parse(presets[name]) }))
  io.out(json ? `${JSON.stringify(Object.fromEntries(models.map(asEntry)), null, 2)}\n` : `${asText(models)}\n`)
  return 0
}

interface NamedModel {
  readonly name: PresetName
  readonly model: ModelConfig
}

/** The sequence that the parameters are counted for: learned positions have a row for each token. */
const sequenceOf = (model: ModelConfig): number => ('positions' in model ? (model.positions ?? 1024) : 1)

const asEntry = ({ name, model }: NamedModel) =>
  [name, { ...model, parameters: parametersOf(model, sequenceOf(model)) }] as const

function asText(models: readonly NamedModel[]): string {
  const rows = models.map(({ name, model }) => {
    const { family, layers, embed, ffn } = model
    const heads = 'heads' in model ? model.heads : '-'
    const kvHeads = 'kvHeads' in model ? model.kvHeads : heads
    const vocab = 'vocab' in model ? model.vocab : '-'
    return [name, family, showCount(parametersOf(model, sequenceOf(model))), layers, embed, heads, kvHeads, ffn, vocab]
  })
  return table(['name', 'family', 'parameters', 'layers', 'embed', 'heads', 'kvHeads', 'ffn', 'vocab'], rows)
}
