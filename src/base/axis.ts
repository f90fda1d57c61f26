/**
 * The axes of a mesh, and what each is for: one table, total over the union. The compiler's layouts, checks, prices,
 * reports and commands read it; what only one of them needs to know of an axis stays with that one.
 */

/**
 * How ranks are numbered where a plan does not say: the axis that varies fastest first. Read backwards it is the order in
 * which several axes split one dim, the major one first.
 */
export const rankOrder = ['tp', 'cp', 'ep', 'dp', 'pp'] as const
/** The name of a parallelism axis: tp, cp, ep, pp or dp. */
export type MeshAxis = (typeof rankOrder)[number]

/** An axis of the mesh, a factor of it, or a factor of that: where experts cut an axis that has factors already, or has none. */
export type Axis = MeshAxis | `${MeshAxis}.${number}` | `${MeshAxis}.${number}.${number}`

export interface AxisFacts {
  /** Dims that are split over it. Where two of a tensor's could be, the one named first is. */
  readonly dims: readonly string[]
  /** A dim that is split over it where no other dim of the tensor is, and only if the plan asks for that. */
  readonly spare?: string
  /** Which factor a dim takes where the axis is factored; the other dims take all factors. */
  readonly factors?: Readonly<Record<string, number>>
  /** Its ranks are those of other axes, seen by experts: it is no factor of the world. */
  readonly folded?: true
  /** Dims that a factor of it takes instead, in ops that may be computed by them: what its ranks hold of other dims is exchanged. */
  readonly claims?: Readonly<Record<string, number>>
  /** Its ranks compute with the same parameters on different tokens: gradients are summed over it, and ZeRO splits them. */
  readonly data: boolean
  /** Programs can be compiled for it. */
  readonly supported: boolean
  /** Its part of a step's time. */
  readonly title: string
  /** What its size counts. */
  readonly counts: string
}

/** In the order people name them. */
export const axisFacts: Readonly<Record<MeshAxis, AxisFacts>> = {
  tp: {
    dims: ['kvHeads', 'group', 'ffn', 'sharedFfn', 'vocab'],
    spare: 'seq',
    factors: { kvHeads: 0, group: 1 },
    data: false,
    supported: true,
    title: 'tensor parallel',
    counts: 'tensor parallelism: ranks that shard every matmul',
  },
  pp: {
    dims: [],
    data: false,
    supported: true,
    title: 'pipeline P2P',
    counts: 'pipeline parallelism: ranks that each hold a range of layers',
  },
  dp: {
    dims: ['batch'],
    data: true,
    supported: true,
    title: 'data parallel',
    counts: 'data parallelism: replicas that share the batch',
  },
  cp: {
    dims: ['seq'],
    claims: { group: 1, kvHeads: 2 },
    data: true,
    supported: true,
    title: 'context parallel',
    counts: 'context parallelism: ranks that shard the sequence',
  },
  ep: {
    dims: ['expert'],
    folded: true,
    data: false,
    supported: true,
    title: 'expert parallel',
    counts: 'expert parallelism: ranks of dp x cp x tp that shard the experts',
  },
}

export const meshAxes = Object.keys(axisFacts) as readonly MeshAxis[] // its own keys

/** Where the time of an axis goes, for people. */
export const axisTitles = Object.fromEntries(meshAxes.map(axis => [axis, axisFacts[axis].title])) as Readonly<
  Record<MeshAxis, string>
> // every axis is there

export const defaultOrder: string = rankOrder.join('-')

/** Dims of what is computed, never of parameters. */
export const tokenDims: readonly string[] = ['batch', 'seq']

/** `tp.1` is a factor of `tp`. */
export const baseOf = (axis: Axis): MeshAxis => {
  const dot = axis.indexOf('.')
  return (dot < 0 ? axis : axis.slice(0, dot)) as MeshAxis // the part before the dot, by construction
}

export const factsOf = (axis: Axis): AxisFacts => axisFacts[baseOf(axis)]

export const isMeshAxis = (word: string): word is MeshAxis => Object.hasOwn(axisFacts, word)

export const isAxis = (word: string): word is Axis => {
  const [base, ...factors] = word.split('.')
  return isMeshAxis(base) && factors.length <= 2 && factors.every(factor => /^\d+$/.test(factor))
}

/** Sorts axes that split one dim, the major one first; factors are major first by their names. */
export const byMajor = (a: Axis, b: Axis): number =>
  rankOrder.indexOf(baseOf(b)) - rankOrder.indexOf(baseOf(a)) || (a < b ? -1 : 1)

/** Whether a dim of this name is split over an axis, or over this factor of it. */
export function splitsDim(axis: Axis, dim: string): boolean {
  const { dims, factors } = factsOf(axis)
  const factor = factors?.[dim]
  if (!dims.includes(dim)) return false
  return factor === undefined || factor === Number(axis.split('.')[1] ?? 0)
}

/** The dim that a factor of an axis takes where an op may be computed by it. */
export function claimOf(axis: Axis): string | undefined {
  const { claims = {} } = factsOf(axis)
  const factor = Number(axis.split('.')[1] ?? Number.NaN)
  return Object.keys(claims).find(dim => claims[dim] === factor)
}

/** The axis that a collective is counted under: its own, dp for several data axes, none for one over the whole mesh, or of one rank. */
export function axisOfGroup(axes: readonly Axis[]): MeshAxis | undefined {
  const bases = [...new Set(axes.map(baseOf))]
  if (bases.length <= 1) return bases[0]
  return bases.every(axis => axisFacts[axis].data) ? 'dp' : undefined
}

export type AxisSizes = Readonly<Record<MeshAxis, number>>

/** One rank along every axis. */
export const oneRank: AxisSizes = { tp: 1, pp: 1, dp: 1, cp: 1, ep: 1 }

/** The sizes alone, of whatever has them. */
export const sizesOf = ({ tp, pp, dp, cp, ep }: AxisSizes): AxisSizes => ({ tp, pp, dp, cp, ep })

const dataAxes = meshAxes.filter(axis => axisFacts[axis].data)
/** Axes whose ranks share the sequences of a batch. */
export const batchAxes = meshAxes.filter(axis => axisFacts[axis].dims.includes('batch'))

const product = (sizes: AxisSizes, axes: readonly MeshAxis[]): number => {
  let ranks = 1
  for (const axis of axes) ranks *= sizes[axis]
  return ranks
}

export const ranksOf = (sizes: AxisSizes): number =>
  product(
    sizes,
    meshAxes.filter(axis => !axisFacts[axis].folded),
  )

/** Ranks that compute with the same parameters: ZeRO splits what they all hold. */
export const dataRanks = (sizes: AxisSizes): number => product(sizes, dataAxes)

/** Ranks that share the sequences of a batch. */
export const batchRanks = (sizes: AxisSizes): number => product(sizes, batchAxes)
