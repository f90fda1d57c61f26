/** The model that was named beside a configuration. */
import { fromHuggingFace, isPreset, type ModelInput, presets } from '../model/index.js'
import type { Given } from './note.js'

/** undefined: none was named, or it is not a model that Lockstep can train. */
export function modelGiven({ model }: { readonly model?: Given['model'] | undefined }): ModelInput | undefined {
  if (model === undefined) return undefined
  return typeof model === 'string' ? (isPreset(model) ? presets[model] : undefined) : fromHuggingFace(model).config
}
