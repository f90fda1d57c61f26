/** How many ranks a command starts: by its launcher, by what SLURM was asked for, by the environment. */
import { counted } from '../../base/index.js'
import { isUnknown, type Launch, type State } from '../shell/index.js'

/** Words such as `--nodes=4`, `--nodes 4` and `-N 4`, by name without dashes, `_` as `-`. */
function optionsOf(words: readonly string[]): ReadonlyMap<string, string> {
  const options = new Map<string, string>()
  words.forEach((word, i) => {
    const [, name, value] = /^--?([A-Za-z][\w-]*)(?:=(.*))?$/.exec(word) ?? []
    const next = words[i + 1]
    const found = value ?? (next !== undefined && !/^-[-A-Za-z]/.test(next) ? next : undefined)
    if (name !== undefined && found !== undefined) options.set(name.replaceAll('_', '-'), found)
  })
  return options
}

type Options = ReadonlyMap<string, string>

/** The first of these names that has a whole number; `1:4` is at least 1. */
function numberIn(options: Options, ...names: readonly string[]): number | undefined {
  for (const name of names) {
    const [text] = (options.get(name) ?? '').split(':')
    if (text !== undefined && /^\d+$/.test(text)) return Number(text)
  }
  return undefined
}

export interface Slurm {
  readonly nodes?: number
  readonly tasks?: number
  /** Tasks, or devices where a task is a node. */
  readonly perNode?: number
}

export function slurmOf(lines: readonly string[]): Slurm {
  const options = optionsOf(lines.flatMap(line => line.replace(/\s#.*$/, '').split(/\s+/)))
  const nodes = numberIn(options, 'nodes', 'N')
  const tasks = numberIn(options, 'ntasks', 'n')
  const perTask = numberIn(options, 'ntasks-per-node', 'tasks-per-node')
  const devices = numberIn(options, 'gpus-per-node') ?? devicesOf(options.get('gres'))
  const perNode = Math.max(perTask ?? 0, devices ?? 0)
  return {
    ...(nodes !== undefined && { nodes }),
    ...(tasks !== undefined && { tasks }),
    ...(perNode > 0 && { perNode }),
  }
}

const devicesOf = (gres = ''): number | undefined => {
  const [, count] = /^gpu(?::[\w-]+)?:(\d+)/.exec(gres) ?? []
  return count === undefined ? undefined : Number(count)
}

/** What SLURM tells a script of what it was asked for. */
export function slurmEnvironment(text: string): Readonly<Record<string, string>> {
  const { nodes, tasks, perNode } = slurmOf([...text.matchAll(/^#SBATCH[ \t]+(.*)$/gm)].map(([, line]) => line ?? ''))
  const named = {
    SLURM_NNODES: nodes,
    SLURM_JOB_NUM_NODES: nodes,
    SLURM_GPUS_ON_NODE: perNode,
    SLURM_GPUS_PER_NODE: perNode,
  }
  const all = tasks ?? (nodes !== undefined && perNode !== undefined ? nodes * perNode : undefined)
  const given = { ...named, SLURM_NTASKS: all, SLURM_NPROCS: all }
  return Object.fromEntries(Object.entries(given).flatMap(([name, n]) => (n === undefined ? [] : [[name, String(n)]])))
}

export interface World {
  readonly ranks: number
  readonly how: string
}

const count = (state: State, ...names: readonly string[]): number | undefined => {
  const texts = names.map(name => state.variables.get(name)).filter(one => typeof one === 'string')
  const found = texts.find(one => /^\d+$/.test(one))
  return found === undefined ? undefined : Number(found)
}

/** undefined: nothing says it. */
export function worldOf({ before, program }: Launch, state: State): World | undefined {
  const options = optionsOf(before.filter(word => !isUnknown(word)))
  const slurm = slurmOf(state.sbatch)
  const perNode = numberIn(options, 'nproc-per-node', 'num-gpus', 'num-gpus-per-node', 'gpus-per-node')
  const nodes = numberIn(options, 'nnodes', 'num-nodes', 'nodes', 'N')
  if (program === 'megatron') {
    const [each, many] = [count(state, 'NPROC_PER_NODE') ?? 1, count(state, 'NNODES') ?? 1]
    return { ranks: each * many, how: `NPROC_PER_NODE ${each} x NNODES ${many}` }
  }
  if (perNode !== undefined) {
    const many = nodes ?? (before.includes('srun') ? slurm.nodes : undefined) ?? 1
    return { ranks: perNode * many, how: `${counted(many, 'node')} x ${counted(perNode, 'process')}` }
  }
  const tasks = numberIn(options, 'ntasks', 'n', 'np')
  if (tasks !== undefined) return { ranks: tasks, how: `${tasks} tasks` }
  return ofSlurm(options, slurm)
}

/** One task a device, of `srun` or of what was asked for at the head of the script. */
function ofSlurm(options: Options, slurm: Slurm): World | undefined {
  const nodes = numberIn(options, 'nodes', 'N') ?? slurm.nodes
  const each = numberIn(options, 'ntasks-per-node') ?? slurm.perNode
  if (nodes !== undefined && each !== undefined) return { ranks: nodes * each, how: `SLURM: ${nodes} nodes x ${each}` }
  return slurm.tasks === undefined ? undefined : { ranks: slurm.tasks, how: `SLURM: ${slurm.tasks} tasks` }
}
