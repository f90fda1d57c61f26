/**
 * Recipe fields that a job leaves out. Their defaults are Lockstep's, not the user's, so a file for another framework must not
 * state them: the keys are removed from it and named instead.
 */
import { isMapping, type Mapping, mappingOf } from '../../plan/index.js'

/** What a training recipe decides and a planner does not. */
export const recipeFields = [
  'training.optimizer',
  'training.lrSchedule',
  'training.clip',
  'training.steps',
  'training.seed',
] as const
export type RecipeField = (typeof recipeFields)[number]

/** Paths of keys in the file that a field becomes. The first names the field to the user. */
export type KeysOf = Readonly<Partial<Record<RecipeField, readonly string[]>>>

/** Recipe fields that a job file leaves out. */
export const unsetFields = (file: Mapping): RecipeField[] =>
  recipeFields.filter(path => path.split('.').reduce<unknown>((at, key) => mappingOf(at)[key], file) === undefined)

/** A configuration without the keys of unset fields. */
export function withoutUnset<T extends Mapping>(config: T, keys: KeysOf, unset: readonly RecipeField[]): T {
  const paths = unset.flatMap(field => keys[field] ?? [])
  return paths.reduce<Mapping>((rest, path) => without(rest, path.split('.')), config) as T // keys are optional in every framework
}

function without(config: Mapping, [key, ...inner]: readonly string[]): Mapping {
  if (!Object.hasOwn(config, key)) return config
  const { [key]: value, ...rest } = config
  if (inner.length === 0) return rest
  return isMapping(value) ? { ...config, [key]: without(value, inner) } : config
}
