/** What is known of a flag: how many words it takes, in which releases it exists, and under which name a run prints it. */
import { forks, lists, type Release, releases, switches, values } from './flag-table.js'

export type Arity = 'none' | 'one' | 'several'

export interface Flag {
  readonly arity: Arity
  readonly since: Release
  readonly until?: Release
  /** Not Megatron's own. */
  readonly fork?: string
}

export const isRelease = (text: string): text is Release => (releases as readonly string[]).includes(text)

/** Groups of a table: what stands before a colon, and the names behind it. */
const groupsOf = (table: string): (readonly [string, readonly string[]])[] =>
  table
    .trim()
    .replace(/\n {2}/g, ' ')
    .split('\n')
    .map(line => {
      const at = line.indexOf(':')
      return [
        line.slice(0, at),
        line
          .slice(at + 1)
          .trim()
          .split(/\s+/),
      ] as const
    })

function made(): ReadonlyMap<string, Flag> {
  const all = new Map<string, Flag>()
  const arities = { flag: 'none', value: 'one', values: 'several', optional: 'one' } as const
  for (const [head, names] of groupsOf(forks)) {
    const [fork = '', kind = ''] = head.split(' ')
    const arity = arities[kind as keyof typeof arities] ?? 'one' // a word of the table
    for (const name of names) all.set(nameOf(name), { arity, since: '2.0', fork })
  }
  for (const [table, arity] of [
    [switches, 'none'],
    [values, 'one'],
    [lists, 'several'],
  ] as const)
    for (const [head, names] of groupsOf(table)) {
      const [since = '', until = ''] = head.split('..')
      if (!isRelease(since)) continue
      for (const name of names) all.set(nameOf(name), { arity, since, ...(isRelease(until) && { until }) })
    }
  return all
}

/** `--lr_decay_style` and `lr-decay-style` are one flag. */
export const nameOf = (written: string): string => written.replace(/^-+/, '').replaceAll('_', '-')

const flags = made()
export const flagNamed = (name: string): Flag | undefined => flags.get(nameOf(name))
export const flagNames: readonly string[] = [...flags.keys()]

export const isInRelease = ({ since, until }: Flag, release: Release): boolean =>
  releases.indexOf(since) <= releases.indexOf(release) &&
  (until === undefined || releases.indexOf(release) <= releases.indexOf(until))

/** The newest release that has all of these flags; undefined where none has. */
export function releaseOf(names: readonly string[]): Release | undefined {
  const known = names.flatMap(name => flags.get(name) ?? []).filter(({ fork }) => fork === undefined)
  return releases.findLast(release => known.every(flag => isInRelease(flag, release)))
}

export const isBefore = (release: Release, other: Release): boolean =>
  releases.indexOf(release) < releases.indexOf(other)

/** Flags whose printed name is another one; `!`: the flag turns it off. */
const printedAs: Readonly<Record<string, string>> = {
  ...{
    'apply-layernorm-1p': 'layernorm_zero_centered_gamma',
    'fp8-format': 'fp8',
    'norm-epsilon': 'layernorm_epsilon',
  },
  ...{ 'disable-bias-linear': '!add_bias_linear', 'no-position-embedding': '!add_position_embedding' },
  ...{ 'no-overlap-p2p-communication': '!overlap_p2p_comm', 'no-rope-fusion': '!apply_rope_fusion' },
  ...{ 'torch-fsdp2-no-reshard-after-forward': '!torch_fsdp2_reshard_after_forward', 'use-nccl-ub': 'nccl_ub' },
  ...{ 'microbatch-group-size-per-virtual-pipeline-stage': 'microbatch_group_size_per_vp_stage' },
  ...{ 'num-virtual-stages-per-pipeline-rank': 'virtual_pipeline_model_parallel_size' },
}

/** By the name that a run prints: the flag, and the value that stands for it. */
export const printedFlags: ReadonlyMap<string, { readonly name: string; readonly when: boolean }> = new Map(
  flagNames.map(name => {
    const printed =
      printedAs[name] ?? (name.startsWith('no-') && flags.get(name)?.arity === 'none' ? `!${name.slice(3)}` : name)
    const when = !printed.startsWith('!')
    return [printed.replace('!', '').replaceAll('-', '_'), { name, when }] as const
  }),
)
