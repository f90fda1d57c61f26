/** Megatron's flags: in a launch script, in a YAML file, or as a run has printed them. */
import type { Foreign } from '../../plan/index.js'
import type { Given, Imported, Reader } from '../note.js'
import { type KeyTable, Reading } from '../reading.js'
import { followScript, type Launch, type State } from '../shell/index.js'
import { readTree, type Tree } from '../tree.js'
import { type FlagValue, flagsOf, isOpen } from './argv.js'
import { readDeepSpeed } from './deepspeed.js'
import { megatronDefaults } from './defaults.js'
import { releases } from './flag-table.js'
import { flagNamed, isRelease, releaseOf } from './flags.js'
import type { Found } from './found.js'
import { flagsOfLog } from './log.js'
import { readMeaning } from './meaning.js'
import { isWithout, restOf } from './rest.js'
import { Terms } from './terms.js'
import { slurmEnvironment, worldOf } from './world.js'
import { flagsOfYaml } from './yaml.js'

export const readMegatron: Reader = (text, given, format) =>
  format === 'log'
    ? ofLog(text, given)
    : format === 'yaml' || format === 'json'
      ? ofYaml(text, given)
      : ofScript(text, given)

const pathOf = (name: string): string => (name === 'world' ? name : `--${name}`)

function ofScript(text: string, given: Given): Imported {
  const source = { framework: 'megatron', format: 'script' } as const
  const { env, args, set, read } = given
  const state = followScript(text, {
    env: { ...slurmEnvironment(text), ...env },
    ...(args && { args }),
    ...(set && { set }),
    ...(read && { read }),
  })
  const launch = launchOf(state)
  if (!launch) return nothingLaunched(state, source)
  const argv = launch.program === 'megatron' ? launch.argv.slice(1) : launch.argv
  const { values, remarks } = flagsOf(argv)
  const shown = new Map(
    [...values].map(([name, value]) => [name, isOpen(value) ? shownValue(value, state) : value] as const),
  )
  const world = worldOf(launch, state)
  const reading = readingOf(
    source,
    {
      ...{ values: shown, remarks, lineOf: lineIn(text) },
      ...(world && { world }),
      ...(launch.program === 'megatron' && { fork: 'swift' as const }),
      read: path => state.files.get(path) ?? read?.(path),
    },
    given,
  )
  remarkOn(reading, state)
  return finish(reading)
}

const shownValue = (value: FlagValue, state: State): FlagValue =>
  value === true ? true : typeof value === 'string' ? state.shown(value) : value.map(one => state.shown(one))

/** Of several commands the one with most flags of Megatron. */
function launchOf(state: State): Launch | undefined {
  const known = ({ argv }: Launch) => [...flagsOf(argv).values.keys()].filter(name => flagNamed(name)).length
  const counted = state.launches.map(launch => ({ launch, count: known(launch) })).filter(({ count }) => count >= 3)
  const best = counted.reduce((a, b) => (b.count > a.count ? b : a), {
    launch: undefined as Launch | undefined,
    count: 0,
  })
  return best.launch ?? ofVariables(state)
}

/** Where no command is understood: variables that hold flags, one after the other. */
function ofVariables(state: State): Launch | undefined {
  const words = [...state.variables.values()]
    .flatMap(value => (typeof value === 'string' ? [value] : value))
    .join(' ')
    .split(/\s+/)
  const argv = words.filter((word, i) => word.startsWith('--') || words[i - 1]?.startsWith('--'))
  const isEnough = [...flagsOf(argv).values.keys()].filter(name => flagNamed(name)).length >= 3
  return isEnough ? { before: [], program: 'variables', argv, line: 1 } : undefined
}

function nothingLaunched(state: State, source: Foreign): Imported {
  const message = 'no command with flags of Megatron was found in it'
  const notes = state.remarks.map(
    ({ line, message: said }) => ({ kind: 'notCarried', path: `line ${line}`, line, message: said }) as const,
  )
  return { ...source, notes: [{ kind: 'refused', path: 'script', line: 1, message }, ...notes] }
}

const lineIn = (text: string) => {
  const lines = text.split('\n')
  return (name: string): number | undefined => {
    const pattern = new RegExp(`(^|[^\\w-])--${name.replace(/[^\w-]/g, '.').replaceAll('-', '[-_]')}(?![\\w-])`)
    const at = lines.findIndex(line => !/^\s*#/.test(line) && pattern.test(line))
    return at < 0 ? undefined : at + 1
  }
}

function remarkOn(reading: Reading, state: State): void {
  for (const { line, message } of state.remarks) reading.remark(`line ${line}`, line, message)
  const unset = [...state.unset].filter(([name]) => /^[A-Z0-9_]+$/i.test(name))
  for (const [name, line] of unset.slice(0, 50))
    reading.remark(
      /^\d+$/.test(name) ? `$${name}` : name,
      line,
      `the variable is not set: pass ${/^\d+$/.test(name) ? '--arg <value>' : `--env ${name}=<value>`}`,
    )
}

function ofYaml(text: string, given: Given): Imported {
  const source = { framework: 'megatron', format: 'yaml' } as const
  const tree = readTree(text, 'yaml')
  if (tree.refused.length > 0) return new Reading(source, tree).finish()
  return finish(readingOf(source, flagsOfYaml(tree, given), given))
}

function ofLog(text: string, given: Given): Imported {
  const source = { framework: 'megatron', format: 'log' } as const
  const found = flagsOfLog(text)
  if (!found)
    return {
      ...source,
      notes: [{ kind: 'refused', path: 'arguments', line: 1, message: 'no argument lines found' }],
    }
  return finish(readingOf(source, found, given))
}

/** Everything but what is said of keys that nothing was asked of. */
export function readingOf(source: Foreign, found: Found, given: Given): Reading {
  const names = [...found.values.keys()]
  const asked = given.release
  const release = (asked !== undefined && isRelease(asked) ? asked : undefined) ?? releaseOf(names) ?? '2026-08'
  const reading = new Reading(source, treeOf(found))
  if (asked !== undefined && !isRelease(asked))
    reading.refuse('--release', `unknown release ${asked}; use one of ${releases.join(', ')}`)
  const t = new Terms(reading, pathOf, megatronDefaults(release, found.fork))
  for (const { name, message } of found.remarks) reading.remark(pathOf(name), found.lineOf(name), message)
  const { world } = found
  if (given.world === undefined && world) reading.remark('world', undefined, `${world.ranks} = ${world.how}`, 'derived')
  readMeaning(t, given, given.world ?? world?.ranks)
  if (!reading.refused) readDeepSpeed(t, found.read)
  if (found.resolved) reading.seen(...names.map(pathOf))
  else nameOthers(reading, names, found.fork !== undefined)
  return reading
}

const treeOf = ({ values, lineOf }: Found): Tree => ({
  value: Object.fromEntries([...values].map(([name, value]) => [pathOf(name), value])),
  lineOf: path => lineOf(path.replace(/^--/, '')),
  ...{ twice: [], refused: [] },
})

/** Flags that are no flags of Megatron, and those that change nothing. */
function nameOthers(reading: Reading, names: readonly string[], fork: boolean): void {
  for (const name of names) {
    if (reading.isNoted(pathOf(name))) continue
    const flag = flagNamed(name)
    if (isWithout(name)) reading.cosmetic(pathOf(name))
    else if (!flag && !fork) reading.drop(pathOf(name), 'not a flag of Megatron-LM: a flag of a fork, or a typo')
  }
}

const known: KeyTable = restOf(pathOf)
const finish = (reading: Reading): Imported => reading.finish(known, 'no job field corresponds to this flag')
