/** The sizes that the cost of a block depends on: mesh axes, batch, rows of expert buffers. */
import { type Axis, type Dim, type Mesh, sizeOf } from '../../base/index.js'
import { entry } from '../entry.js'

/** `mesh`: all axes, their order too. */
export type SizeName = 'batch' | 'row' | 'microbatches' | 'mesh' | Axis

/** Dims that differ between plans of one structure. */
const sizedDims = ['batch', 'row'] as const
export type SizedDims = Readonly<Record<(typeof sizedDims)[number], number>>

export const isSized = (name: string): name is keyof SizedDims => (sizedDims as readonly string[]).includes(name)

/** Sizes that a cost depends on together. Each combination that occurs gets a number. */
export class SizeGroup {
  readonly #names: readonly SizeName[]
  readonly #known = new Map<string, number>()

  constructor(names: readonly SizeName[]) {
    this.#names = names
  }

  numberOf(sizes: Sizes): number {
    const key = this.#names.map(name => sizes.of(name)).join()
    return entry(this.#known, key, () => this.#known.size)
  }
}

export class Sizes {
  readonly mesh: Mesh
  readonly microbatches: number
  readonly #sized: SizedDims
  readonly #mesh: string
  readonly #numbers = new Map<SizeGroup, number>()

  constructor(mesh: Mesh, sized: SizedDims, microbatches: number) {
    this.mesh = mesh
    this.microbatches = microbatches
    this.#sized = sized
    this.#mesh = mesh.axes.map(({ size }) => size).join('x')
  }

  of(name: SizeName): number | string {
    if (name === 'mesh') return this.#mesh
    if (isSized(name)) return this.#sized[name]
    return name === 'microbatches' ? this.microbatches : sizeOf(this.mesh, name)
  }

  numberIn(group: SizeGroup): number {
    return entry(this.#numbers, group, () => group.numberOf(this))
  }

  /** Dims of a tensor before sharding, at these sizes. */
  dims(dims: readonly Dim[]): readonly Dim[] {
    return dims.map(dim => (isSized(dim.name) ? { ...dim, size: this.#sized[dim.name] } : dim))
  }
}
