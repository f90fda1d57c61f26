/** A layer's matrices cut over tensor parallel ranks: which dim is cut, and which heads each rank has, as the compiled program has it. */
import { coordinatesOf, indexAlong, type Program, presets, sizeOfAll } from 'lockstep'
import { programOf } from './jobs.js'

export interface CutInput {
  readonly model: 'gpt2-medium' | 'llama2-7b' | 'llama3-8b' | 'llama3-70b'
  readonly tp: number
}

export interface CutDim {
  readonly name: string
  readonly size: number
  /** What one rank has of it. */
  readonly part: number
}

export interface CutMatrix {
  readonly name: string
  readonly dims: readonly CutDim[]
  /** Of the whole, and of one rank. */
  readonly bytes: number
  readonly part: number
}

export interface CutAnswer {
  readonly tp: number
  readonly matrices: readonly CutMatrix[]
  /** Ranks that have each query head, and each head of keys and values; heads of one kv head stand together. */
  readonly heads: readonly (readonly number[])[]
  readonly kvHeads: readonly (readonly number[])[]
}

type Param = Program['params'][number]

/** One layer says it all. */
export function layerCut({ model, tp }: CutInput): CutAnswer {
  const program = programOf({
    model: { ...presets[model], layers: 1 },
    training: { seq: 1024, globalBatch: 1 },
    plan: { tp, precision: 'bf16' },
  })
  const layer = program.params.filter(({ name, dims }) => name.startsWith('layers.0.') && dims.length > 1)
  const matrices = layer.filter(({ name }) => !name.endsWith('.bias')).map(param => matrixOf(program, param))
  const find = (name: string) => program.params.find(param => param.name === `layers.0.attn.${name}`)!
  return { tp, matrices, heads: holdersOf(program, find('q')), kvHeads: holdersOf(program, find('k')) }
}

const bytesOf = (sizes: readonly number[]): number => 2 * sizes.reduce((all, size) => all * size, 1)

const axesOf = ({ kept }: Param, dim: string) => kept.splits[dim] ?? []

function matrixOf({ mesh }: Program, param: Param): CutMatrix {
  const dims = param.dims.map(({ name, size }) => ({ name, size, part: size / sizeOfAll(mesh, axesOf(param, name)) }))
  return {
    ...{ name: param.name.slice('layers.0.'.length), dims },
    bytes: bytesOf(dims.map(({ size }) => size)),
    part: bytesOf(dims.map(({ part }) => part)),
  }
}

const headDims: ReadonlySet<string> = new Set(['kvHeads', 'group'])

/** Of every head, in the order of the matrix, the ranks whose part has it. */
function holdersOf({ mesh }: Program, param: Param): number[][] {
  const dims = param.dims.filter(({ name }) => headDims.has(name))
  const count = dims.reduce((all, { size }) => all * size, 1)
  const world = mesh.axes.reduce((all, { size }) => all * size, 1)
  const ranges = Array.from({ length: world }, (_, rank) =>
    dims.map(({ name, size }) => {
      const part = size / sizeOfAll(mesh, axesOf(param, name))
      const first = part * indexAlong(mesh, axesOf(param, name), coordinatesOf(mesh, rank))
      return [first, first + part] as const
    }),
  )
  return Array.from({ length: count }, (_, head) => {
    const at = dims
      .toReversed()
      .reduce(({ rest, found }, { size }) => ({ rest: Math.floor(rest / size), found: [rest % size, ...found] }), {
        rest: head,
        found: [] as number[],
      }).found
    const has = (rank: number) => at.every((index, n) => index >= ranges[rank]![n]![0] && index < ranges[rank]![n]![1])
    return ranges.flatMap((_, rank) => (has(rank) ? [rank] : []))
  })
}
