/** lockstep groups: which ranks talk to each other, in Megatron's order or another system's. */
import { table } from '../../base/index.js'
// Not through the folder's index: groups need neither schemas nor YAML, and these take longer to load than to use.
import { type Groups, type RankGroups, rankGroups, type System } from '../../plan/groups.js'
import type { Io } from '../io.js'
import { problemsJson, showProblems } from '../text/problems.js'

export interface GroupsOptions {
  readonly devices: number
  readonly tp: number
  readonly cp: number
  readonly ep: number
  readonly etp?: number
  readonly pp: number
  readonly dpReplicate: number
  readonly order: string
  readonly like: System
  readonly json?: boolean
}

export function groupsCommand(options: GroupsOptions, io: Io): number {
  const sizes = { ...options, world: options.devices, etp: options.etp ?? options.tp }
  const { groups, problems } = rankGroups(sizes, options.like)
  if (options.json) io.out(groups ? `${JSON.stringify(asJson(groups, options.like))}\n` : problemsJson(problems))
  else if (groups) io.out(asText(groups, options))
  if (groups || !options.json) io.err(showProblems(problems, io))
  return groups ? 0 : 1
}

/** Megatron's groups are the two tables and no more; another system's come with the mapping that was used. */
const asJson = ({ dense, expert, mapping }: RankGroups, like: System) =>
  like === 'megatron' ? { dense, expert } : { like, mapping, dense, ...(expert && { expert }) }

function asText({ dense, expert, mapping }: RankGroups, { devices, like }: GroupsOptions): string {
  const grid = (name: string, groups: Groups) =>
    `${name}: ${mapping[name]}\n${table(['group', 'count', 'ranks', ''], rows(groups))}\n`
  const grids = [grid('dense', dense), ...(expert ? [grid('expert', expert)] : [])]
  return `${devices} ranks in the rank order of ${like}\n\n${grids.join('\n')}`
}

const rows = (groups: Groups) =>
  Object.entries(groups).map(([name, parts]) => [name, parts.length, parts[0]?.length ?? 0, showParts(parts)])

/** Lines of as many groups as fit. */
function showParts(parts: readonly (readonly number[])[]): string {
  const shown: string[] = []
  let width = 0
  for (const part of parts) {
    const text = part.length > 16 ? `[${part.slice(0, 8)},...,${part.at(-1)}]` : `[${part}]`
    width += text.length + 1
    if (width > 80 && shown.length > 0) return `${shown.join(' ')} ...`
    shown.push(text)
  }
  return shown.join(' ')
}
