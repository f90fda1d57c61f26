/**
 * Who talks to whom: the ranks of a world, partitioned along every axis, in Megatron's orders and in those of others.
 * A dense layer and an expert layer see the same ranks through two grids: the dense one has cp and no ep, the expert
 * one ep, its own tp and no cp. Both must cut the pipeline alike, or a stage would be two different sets of ranks.
 */
import { either, error, type Problem, shorten, warning } from '../base/index.js'

export interface GroupSizes {
  readonly world: number
  readonly tp: number
  readonly cp: number
  readonly ep: number
  /** tp of the expert layers. */
  readonly etp: number
  readonly pp: number
  /** Fastest varying axis first, joined by '-'. */
  readonly order: string
  /** torchtitan only: copies of the sharded model. */
  readonly dpReplicate: number
}

/** Per name of an axis, or of axes taken together ('tp-dp-cp'), the groups of ranks. */
export type Groups = Readonly<Record<string, readonly (readonly number[])[]>>

/** A grid of ranks, fastest axis first. */
export type Grid = readonly (readonly [axis: string, size: number])[]

/** The process groups of a mesh, for dense and for expert layers. */
export interface RankGroups {
  readonly dense: Groups
  readonly expert?: Groups
  /** The formula of a rank from its coordinates, per grid. */
  readonly mapping: Readonly<Record<string, string>>
}

export interface GroupsFound {
  readonly groups?: RankGroups
  readonly problems: readonly Problem[]
}

export const systems = ['megatron', 'torchtitan', 'picotron', 'deepspeed'] as const
export type System = (typeof systems)[number]

export const mostGroupedRanks = 2 ** 17

/** Ranks that differ along these axes only are one group. Groups and their members stand in rising order. */
function partition(grid: Grid, along: readonly string[]): number[][] {
  const world = grid.reduce((product, [, size]) => product * size, 1)
  const groups = new Map<number, number[]>()
  for (let rank = 0; rank < world; rank++) {
    let [first, stride] = [rank, 1]
    for (const [axis, size] of grid) {
      if (along.includes(axis)) first -= (Math.floor(rank / stride) % size) * stride
      stride *= size
    }
    const group = groups.get(first)
    if (group) group.push(rank)
    else groups.set(first, [rank])
  }
  return [...groups.values()]
}

const partitions = (grid: Grid, names: Readonly<Record<string, readonly string[]>>): Groups =>
  Object.fromEntries(Object.entries(names).map(([name, along]) => [name, partition(grid, along)]))

const split = (names: readonly string[]) => Object.fromEntries(names.map(name => [name, name.split('-')]))

/** [['tp', 2], ['dp', 4], ['pp', 2]] -> 'rank = tp + 2 dp + 8 pp' */
function showMapping(grid: Grid): string {
  let stride = 1
  const terms = grid.map(([axis, size]) => {
    const term = stride === 1 ? axis : `${stride} ${axis}`
    stride *= size
    return { term, size }
  })
  return `rank = ${
    terms
      .filter(({ size }) => size > 1)
      .map(({ term }) => term)
      .join(' + ') || '0'
  }`
}

/** size / (a x b), or the problem that it does not divide. */
function quotient(path: string, size: readonly [string, number], by: Grid): { value: number; problems: Problem[] } {
  const product = by.reduce((n, [, factor]) => n * factor, 1)
  const value = size[1] / product
  if (Number.isInteger(value) && value >= 1) return { value, problems: [] }
  const factors = by.map(([name, factor]) => `${name} ${factor}`).join(' x ')
  const message = `${size[0]} ${size[1]} / (${factors} = ${product}) = ${Number(value.toFixed(3))} is not an integer`
  return {
    value: 1,
    problems: [
      error('groups/indivisible', path, message, `try ${size[0]} ${product * Math.max(1, Math.round(value))}`),
    ],
  }
}

/** Megatron's axes, in its default order. */
const axisNames = ['tp', 'cp', 'ep', 'dp', 'pp']

/** Axes of an order, with those of size 1 that it leaves out at the end, as Megatron adds them. */
function axesOf(sizes: GroupSizes): { axes: string[]; problems: Problem[] } {
  const named = sizes.order.split('-')
  const wrong = named.filter((name, i) => !axisNames.includes(name) || named.indexOf(name) !== i)
  const left = axisNames.filter(axis => !named.includes(axis))
  const needed = left.filter(axis => axis === 'dp' || sizes[axis as 'tp' | 'cp' | 'ep' | 'pp'] > 1) // the others are sizes
  const refuse = (message: string) =>
    error('groups/order', 'order', message, `list ${either(axisNames, 'and')} once each`)
  return {
    axes: [...named, ...left],
    problems: [
      ...(wrong.length > 0 ? [refuse(`\`${shorten(wrong[0], 20)}\` is not an axis, or is listed twice`)] : []),
      ...(wrong.length === 0 && needed.length > 0 ? [refuse(`${either(needed, 'and')} missing`)] : []),
    ],
  }
}

const dataRanks = ({ world, tp, cp, pp }: GroupSizes) =>
  quotient(
    'world',
    ['world', world],
    [
      ['tp', tp],
      ['cp', cp],
      ['pp', pp],
    ],
  )

function megatron(sizes: GroupSizes): GroupsFound {
  const { world, tp, cp, ep, etp, pp } = sizes
  const { axes, problems } = axesOf(sizes)
  const dp = dataRanks(sizes)
  const edp = quotient(
    'world',
    ['world', world],
    [
      ['etp', etp],
      ['ep', ep],
      ['pp', pp],
    ],
  )
  const all = [...problems, ...dp.problems, ...edp.problems]
  if (all.length > 0) return { problems: all }
  const dense: Grid = axes.map(axis => [axis, { tp, cp, ep: 1, dp: dp.value, pp }[axis] ?? 1])
  const expert: Grid = axes.map(axis => [axis, { tp: etp, cp: 1, ep, dp: edp.value, pp }[axis] ?? 1])
  const groups = {
    dense: partitions(dense, split(['tp', 'cp', 'dp', 'pp', 'dp-cp', 'tp-pp', 'tp-cp', 'tp-dp', 'tp-dp-cp'])),
    expert: partitions(expert, split(['tp', 'ep', 'dp', 'tp-ep', 'pp', 'tp-ep-pp'])),
    mapping: { dense: showMapping(dense), expert: showMapping(expert) },
  }
  const differ = groups.dense.pp.findIndex((group, i) => group.join() !== groups.expert.pp[i]?.join())
  if (differ < 0) return { groups, problems: [] }
  const message =
    `pipeline groups differ: dense [${groups.dense.pp[differ]}] (dp ${dp.value}), expert [${groups.expert.pp[differ]}] (dp ${edp.value}); ` +
    `with order ${sizes.order}, pp is not the slowest-varying axis, so both meshes need the same number of ranks below it`
  return { problems: [error('groups/pipeline', 'order', message, 'put pp last')] }
}

/** Slowest to fastest: pp, dp_replicate, dp_shard, cp, tp; for experts pp, dp_replicate, efsdp, ep. */
function torchtitan({ world, tp, cp, ep, pp, dpReplicate }: GroupSizes): GroupsFound {
  const shard = quotient(
    'world',
    ['world', world],
    [
      ['tp', tp],
      ['cp', cp],
      ['pp', pp],
      ['dp_replicate', dpReplicate],
    ],
  )
  if (shard.problems.length > 0) return { problems: shard.problems }
  const efsdp = quotient('ep', ['dp_shard x cp x tp', shard.value * cp * tp], [['ep', ep]])
  if (efsdp.problems.length > 0) return { problems: efsdp.problems }
  const dense: Grid = [
    ['tp', tp],
    ['cp', cp],
    ['dp_shard', shard.value],
    ['dp_replicate', dpReplicate],
    ['pp', pp],
  ]
  const expert: Grid = [
    ['ep', ep],
    ['efsdp', efsdp.value],
    ['dp_replicate', dpReplicate],
    ['pp', pp],
  ]
  return {
    groups: {
      dense: partitions(dense, {
        ...split(['tp', 'cp', 'dp_shard', 'dp_replicate', 'pp']),
        dp: ['dp_shard', 'dp_replicate'],
        fsdp: ['cp', 'dp_shard'],
        loss: ['cp', 'dp_shard', 'dp_replicate'],
      }),
      expert: partitions(expert, split(['ep', 'efsdp', 'dp_replicate', 'pp'])),
      mapping: { dense: showMapping(dense), expert: showMapping(expert) },
    },
    problems: [],
  }
}

/** Systems with one grid and no experts. */
function oneGrid(
  sizes: GroupSizes,
  order: readonly ('tp' | 'cp' | 'dp' | 'pp')[],
  names: Readonly<Record<string, readonly string[]>>,
): GroupsFound {
  const { tp, cp, ep, pp } = sizes
  const dp = dataRanks(sizes)
  const absent = [
    ...(ep > 1 ? [error('groups/unsupported', 'ep', `ep ${ep}: this mesh has no expert axis`, 'leave ep at 1')] : []),
    ...(cp > 1 && !order.includes('cp')
      ? [error('groups/unsupported', 'cp', `cp ${cp}: this mesh has no context axis`, 'leave cp at 1')]
      : []),
  ]
  if (absent.length + dp.problems.length > 0) return { problems: [...absent, ...dp.problems] }
  const grid: Grid = order.map(axis => [axis, { tp, cp, dp: dp.value, pp }[axis]])
  return { groups: { dense: partitions(grid, names), mapping: { dense: showMapping(grid) } }, problems: [] }
}

const layouts: Readonly<Record<System, (sizes: GroupSizes) => GroupsFound>> = {
  megatron,
  torchtitan,
  /** torch.arange(world).view(dp, pp, cp, tp) */
  picotron: sizes => oneGrid(sizes, ['tp', 'cp', 'pp', 'dp'], split(['tp', 'cp', 'pp', 'dp', 'cp-dp', 'pp-dp'])),
  /** PipeModelDataParallelTopology: axes pipe, data, model, the last adjacent. */
  deepspeed: sizes =>
    oneGrid(sizes, ['tp', 'dp', 'pp'], {
      ...split(['tp', 'dp', 'pp', 'tp-pp']),
      model: ['tp'],
      data: ['dp'],
      pipe: ['pp'],
    }),
}

const counted = ['world', 'tp', 'cp', 'ep', 'etp', 'pp', 'dpReplicate'] as const

/** The process groups along every axis, in the rank order of Lockstep or of another framework. */
export function rankGroups(sizes: GroupSizes, like: System = 'megatron'): GroupsFound {
  const bad = counted.flatMap(name => {
    const n = sizes[name]
    if (Number.isInteger(n) && n >= 1 && n <= mostGroupedRanks) return []
    return [error('groups/range', name, `must be an integer from 1 to ${mostGroupedRanks}, got ${n}`)]
  })
  if (bad.length > 0) return { problems: bad }
  const found = layouts[like](sizes)
  const unused = like !== 'megatron' && sizes.order !== defaultGroupOrder
  return unused
    ? { ...found, problems: [...found.problems, warning('groups/order', 'order', `${like} uses its own order`)] }
    : found
}

export const defaultGroupOrder = axisNames.join('-')
