/** Flags as the keys of a YAML file: `MODEL_ARGS` beside `ENV_VARS`, or at its top. */
import { isMapping, type Mapping, mappingOf } from '../../plan/index.js'
import type { Given } from '../note.js'
import type { Tree } from '../tree.js'
import type { FlagValue } from './argv.js'
import { nameOf } from './flags.js'
import type { Found } from './found.js'

export function flagsOfYaml(tree: Tree, given: Given): Found {
  const whole = mappingOf(tree.value)
  const section = ['MODEL_ARGS', 'model_args', 'ARGS'].find(key => isMapping(whole[key]))
  const flags = (section ? whole[section] : whole) as Mapping // a mapping, as was just asked
  const variables = { ...environmentOf(whole), ...given.env, ...given.set }
  const values = new Map<string, FlagValue | boolean>()
  const lines = new Map<string, number | undefined>()
  const remarks: { name: string; message: string }[] = []
  for (const [key, value] of Object.entries(flags)) {
    if (!section && !key.startsWith('-')) continue
    const name = nameOf(key)
    const found = valueFrom(value, variables)
    if (found !== undefined && found !== false) values.set(name, found)
    lines.set(name, tree.lineOf(section ? `${section}.${key}` : key))
  }
  for (const { path } of tree.twice)
    remarks.push({ name: nameOf(path.replace(/^.*\./, '')), message: 'duplicate key: the last value is used' })
  return { values, remarks, lineOf: name => lines.get(name), read: path => given.read?.(path) }
}

function environmentOf(whole: Mapping): Record<string, string> {
  const section = whole.ENV_VARS
  return isMapping(section)
    ? Object.fromEntries(Object.entries(section).map(([name, value]) => [name, String(value)]))
    : {}
}

/** Variables that nobody gave stay as they are written. */
function valueFrom(value: unknown, variables: Readonly<Record<string, string>>): FlagValue | boolean | undefined {
  if (value === null || value === undefined) return undefined
  if (typeof value === 'boolean') return value
  if (Array.isArray(value)) return value.map(one => expanded(String(one), variables))
  if (typeof value === 'object') return JSON.stringify(value).slice(0, 1000)
  const text = expanded(String(value), variables)
  return text === '' ? undefined : text
}

const expanded = (text: string, variables: Readonly<Record<string, string>>): string =>
  text.replace(
    /\$\{(\w+)(?::-([^}]*))?\}|\$(\w+)/g,
    (all, braced: string | undefined, usual: string | undefined, bare: string | undefined) => {
      const name = braced ?? bare ?? ''
      return (Object.hasOwn(variables, name) ? variables[name] : undefined) ?? usual ?? all
    },
  )
