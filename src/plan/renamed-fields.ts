/**
 * Aliases of job fields: the names they had in earlier versions, which load with a note, and other frameworks' names for the same
 * number, which are as good. All else is parsed and printed under today's names alone.
 */
import { isMapping, type Mapping } from './mapping.js'

interface Alias {
  readonly from: string
  readonly to: string
  /** Of the optimizer of this kind alone: others have a field of that name. */
  readonly kind?: string
  /** Values that changed with the name, or without it. */
  readonly values?: Readonly<Record<string, unknown>>
  /** Both names are today's. */
  readonly both?: true
}

const within = (
  path: string,
  names: Readonly<Record<string, string>>,
  more: Omit<Alias, 'from' | 'to'> = {},
): Alias[] => Object.entries(names).map(([from, to]) => ({ ...more, from: `${path}.${from}`, to: `${path}.${to}` }))

const adafactor = { least: 'eps2', most: 'clipThreshold', eps: 'eps1' }
const latent = {
  ...{ plainDim: 'qkNopeHeadDim', ropeDim: 'qkRopeHeadDim', valueDim: 'vHeadDim' },
  ...{ keyValueRank: 'kvLoraRank', queryRank: 'qLoraRank' },
}

export const fieldAliases: readonly Alias[] = [
  ...within('model', { hidden: 'embed', hiddenSize: 'embed' }, { both: true }),
  ...within('model.mla', latent),
  ...within('model.moe', { chosen: 'topK', chosenGroups: 'topKGroups', normalise: 'normalize' }),
  ...within('model.moe.capacity', { renormalise: 'renormalize' }),
  ...within('training', { roles: 'paramGroups' }),
  ...within('training.optimizer', { rest: 'adamw' }, { kind: 'muon' }),
  ...within('training.optimizer', adafactor, { kind: 'adafactor' }),
  ...within('data', { choices: 'routing' }),
  ...within('data.documents', { separator: 'eod' }, { values: { end: 'eos' } }),
  ...within('data.documents', { labels: 'eodMaskLoss' }, { values: { all: false, within: true } }),
  ...within('plan', { rows: 'expertCapacity', order: 'rankOrder' }),
  ...within('plan', { virtualStages: 'chunks' }, { both: true }),
  ...within('plan.offload', { activations: 'activations' }, { values: { boundaries: 'layer-inputs' } }),
  ...within('plan.offload', { boundaries: 'layerInputs' }),
]

/** Today's path of a field, whatever it is called. */
export const pathToday = (path: string): string => fieldAliases.find(({ from }) => from === path)?.to ?? path

/** An alias that a job uses: its path and today's. */
export interface Renamed {
  readonly from: string
  readonly to: string
  /** How the two are written in a sentence: with the value, where that changed alone. */
  readonly old: string
  readonly now: string
  /** Both names are today's: nothing is to be said. */
  readonly both: boolean
  /** Today's name is in the job as well. */
  readonly twice: boolean
}

/** The job under today's names, and which aliases it used. Where both names are given, today's stays. */
export function withTodaysNames(job: unknown): { readonly job: unknown; readonly renamed: readonly Renamed[] } {
  const renamed: Renamed[] = []
  let now = job
  for (const alias of fieldAliases) {
    const found = use(alias, now)
    if (!found) continue
    now = found.job
    renamed.push(found.renamed)
  }
  return { job: now, renamed }
}

function use(alias: Alias, job: unknown): { readonly job: unknown; readonly renamed: Renamed } | undefined {
  const sections = alias.from.split('.')
  const [old, now] = [sections.pop() ?? '', alias.to.split('.').at(-1) ?? '']
  const section = sections.reduce(
    (at: unknown, key) => (isMapping(at) && Object.hasOwn(at, key) ? at[key] : undefined),
    job,
  )
  if (!isMapping(section) || !Object.hasOwn(section, old)) return undefined
  if (alias.kind !== undefined && section.kind !== alias.kind) return undefined
  const { [old]: given, ...others } = section
  const changed = typeof given === 'string' && Object.hasOwn(alias.values ?? {}, given)
  if (old === now && !changed) return undefined
  const value = changed ? alias.values?.[given as string] : given
  const twice = old !== now && given !== undefined && section[now] !== undefined
  const spelt = (path: string, text: unknown) => path.replace(/^model\./, '') + (changed ? `: ${String(text)}` : '')
  return {
    job: replaced(job, sections, twice || given === undefined ? others : { ...others, [now]: value }),
    renamed: {
      ...{ from: alias.from, to: alias.to, both: alias.both ?? given === undefined, twice },
      ...{ old: spelt(alias.from, given), now: spelt(alias.to, value) },
    },
  }
}

/** The same with another section at a path. */
function replaced(at: unknown, [key, ...inner]: readonly string[], section: Mapping): unknown {
  if (key === undefined) return bare(section)
  const mapping = at as Mapping // the section was found on this path
  return bare({ ...mapping, [key]: replaced(mapping[key], inner, section) })
}

/** Without a prototype, as a file is read: a key may be called constructor. */
const bare = (mapping: Mapping): Mapping => Object.assign(Object.create(null), mapping)
