/**
 * The one memory all ranks share, and where everything lies in it: what main and ranks say to each other, the data of
 * the step, and for each rank its status, its kernels' workspace and its arena; then what lowering adds: the blocks
 * ranks meet at, the command lists, the rings of spans. All offsets are bytes from the start of the memory.
 */
import { coordinatesOf, type Dim, elementsOf, type Rank, type Space, worldOf } from '../../../base/index.js'
import { inputsOf } from '../../../geometry/index.js'
import { bytesPer, type DType, type Program, roomIn, type Stream } from '../../../ir/index.js'
import { choosersIn } from '../../choices.js'
import { Status, Sync } from './commands.js'

/** A line of cache: what different ranks write lies on different ones. */

/** Main and its ranks: i32 words. `go` counts steps asked for, `running` the ranks still at it. */
export const Control = { abort: 0, go: 16, running: 32, stop: 48, bytes: 256 } as const

export class Region {
  bytes: number
  constructor(base: number) {
    this.bytes = base
  }

  take(bytes: number, align: number = Sync.lineBytes): number {
    const offset = Math.ceil(this.bytes / align) * align
    this.bytes = offset + bytes
    return offset
  }
}

export interface InputPlace {
  readonly offset: number
  readonly dtype: DType
  readonly elements: number
}

export interface ChoicePlace {
  readonly offset: number
  readonly dims: readonly Dim[]
}

export interface RankPlace {
  readonly status: number
  readonly workspace: number
  /**
   * Its arena of each space. Device and host are this machine's memory, of which the device is the part that has a limit; that of the
   * disk is a file of the rank's own, in which it begins at 0.
   */
  readonly arenas: Readonly<Record<Space, number>>
  /** Where gradients are copied for those who want to see them, by parameter. */
  readonly observed: ReadonlyMap<string, number>
}

export interface MemoryMap {
  readonly control: number
  /** The same words for threads that look at a step (`run/look.ts`). */
  readonly looking: number
  readonly inputs: ReadonlyMap<string, InputPlace>
  /** The learning rate of the step, in f32. */
  readonly lr: number
  readonly ranks: readonly RankPlace[]
  /** Where the choices of each layer are gathered, for those who want to see them. */
  readonly choices: ReadonlyMap<string, ChoicePlace>
}

export interface MapOptions {
  /** Bytes at the start of the memory that belong to the kernels (WebAssembly's data and stacks). */
  readonly reserved: number
  /** Workspace of each rank's kernels. */
  readonly workspaceBytes: number
  readonly observeGradients?: boolean | undefined
  readonly choices?: boolean | undefined
}

export const streamOf = (program: Program, rank: Rank): Stream =>
  program.streams[coordinatesOf(program.mesh, rank).pp ?? 0]

const pageBytes = 4096

export function mapOf(program: Program, options: MapOptions, region: Region): MemoryMap {
  const [control, looking] = [region.take(Control.bytes), region.take(Control.bytes)]
  const inputs = new Map(
    inputsOf(program).map(({ name, dtype, dims }): [string, InputPlace] => {
      const elements = elementsOf(dims)
      return [name, { offset: region.take(elements * bytesPer[dtype]), dtype, elements }]
    }),
  )
  const lr = region.take(4)
  const ranks = Array.from({ length: worldOf(program.mesh) }, (_, rank): RankPlace => {
    const status = region.take(Status.bytes)
    const observed = new Map(options.observeGradients ? gradientsOf(program, region) : [])
    const workspace = region.take(options.workspaceBytes, pageBytes)
    const arena = (space: Space) => region.take(roomIn(streamOf(program, rank), space).arena, pageBytes)
    return {
      status,
      observed,
      workspace,
      arenas: { device: arena('device'), host: arena('host'), disk: 0 },
    }
  })
  const choices = new Map(options.choices ? choicesOf(program, region) : [])
  return { control, looking, inputs, lr, ranks, choices }
}

const choicesOf = (program: Program, region: Region): [string, ChoicePlace][] =>
  [...choosersIn(program)].map(([layer, dims]) => [
    layer,
    { dims, offset: region.take(elementsOf(dims) * bytesPer.i32) },
  ])

/** Room for each gradient whole: a rank's part is never larger. */
const gradientsOf = ({ params }: Program, region: Region): [string, number][] =>
  params.map(({ name, dims }) => [name, region.take(elementsOf(dims) * bytesPer.f32)])
