/**
 * Choices of experts as the tokens of a step made them: of each routed layer those of the global batch, in the order of its
 * samples, whoever held them.
 */
import { type Dim, elementsOf, type Rank } from '../base/index.js'
import { acrossMicrobatches, followed, indicesOf, wholeDims } from '../geometry/index.js'
import type { Buffer, Call, Program } from '../ir/index.js'

export interface Chosen {
  /** batch, seq and choice. */
  readonly dims: readonly Dim[]
  readonly values: Int32Array
}

/** By the name of the layer. */
export type Choices = ReadonlyMap<string, Chosen>

/** Choices of a step whose tokens lay in these orders, as tokens follow each other. */
export const choicesInOrder = (choices: Choices, orders: Int32Array): Choices =>
  new Map([...choices].map(([layer, { dims, values }]) => [layer, { dims, values: followed(values, dims, orders) }]))

/** The layers that choose, and how many choices a step makes there. */
export function choosersIn({ mesh, microbatches, blocks, segments, streams }: Program): Map<string, readonly Dim[]> {
  const made = new Map(
    Object.values(segments).flatMap(({ name, instrs, buffers }) => {
      const chooses = instrs.find(instr => instr.kind === 'topK')
      if (!chooses) return []
      const { dims, layout } = buffers[chooses.outs[0]]
      return [[name, acrossMicrobatches(wholeDims(mesh, dims, layout), microbatches)]]
    }),
  )
  const found = new Map<number, readonly Dim[]>()
  for (const step of streams.flatMap(({ steps }) => steps)) {
    const dims = step.kind === 'call' ? made.get(step.segment) : undefined
    if (dims && step.kind === 'call') found.set(step.block, dims)
  }
  return new Map([...found].sort(([a], [b]) => a - b).map(([block, dims]) => [blocks[block].name, dims]))
}

/** Puts the choices of one rank and microbatch in their place. */
export class ChoiceBook {
  readonly #program: Program
  readonly choices: Choices

  constructor(program: Program) {
    this.#program = program
    const blank = (dims: readonly Dim[]): Chosen => ({ dims, values: new Int32Array(elementsOf(dims)).fill(-1) })
    this.choices = new Map([...choosersIn(program)].map(([layer, dims]) => [layer, blank(dims)]))
  }

  write(rank: Rank, { block, microbatch }: Call, { dims, layout }: Buffer, values: ArrayLike<number>): void {
    const { mesh, blocks } = this.#program
    const all = this.choices.get(blocks[block].name)!.values
    const whole = wholeDims(mesh, dims, layout)
    const before = microbatch * elementsOf(whole)
    for (const [i, index] of indicesOf(mesh, whole, layout, rank).entries()) all[before + index] = values[i]
  }
}
