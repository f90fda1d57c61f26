/** A rank's step with every result looked at: which is the first that is not finite, and a mark of the bits of each. */
import { decode, elementBytes, viewOf } from '../kernels/dtypes.js'
import { firstNotFinite, greatestIn, nanBitsOf } from '../kernels/finite.js'
import type { Exec } from '../kernels/kernels.js'
import type { Note, NotedTensor, Notes } from '../lower/notes.js'
import { type HandPlaces, type Hooks, runByHand } from './by-hand.js'
import { type Deed, deedHooks } from './deeds.js'

/** What a rank found first. */
export interface Found {
  readonly command: number
  readonly ref: string
  readonly index: number
  readonly value: number
  readonly of: readonly { readonly ref: string; readonly most: number }[]
}

export interface Sight {
  readonly found?: Found | undefined
  /** By command: of the bits that it wrote; 0: of none. */
  readonly marks: Uint32Array
}

type Places = HandPlaces & { readonly commands: number }

export function lookAtStep(
  exec: Exec,
  places: Places,
  notes: Notes,
  deeds: readonly Deed[],
): { readonly code: number; readonly sight: Sight } {
  const deed = deedHooks(places, deeds)
  const marks = new Uint32Array(places.commands)
  let found: Found | undefined
  const hooks: Hooks = {
    before(index) {
      for (const { at, n, dtype } of notes.cleared.get(index) ?? [])
        new Uint8Array(places.buffer, at, n * elementBytes(dtype)).fill(0)
      return deed.before?.(index) ?? true
    },
    after(index) {
      deed.after?.(index)
      const note = notes.notes.get(index)
      if (!note) return
      marks[index] = note.results.reduce((mark, tensor) => markOf(mark, tensor, places.buffer), 1)
      found ??= badIn(index, note, places.buffer)
    },
  }
  const code = runByHand(exec, places, hooks, { frozen: true })
  return { code, sight: { found, marks } }
}

const bitsOf = ({ at, n, dtype }: Lying, buffer: SharedArrayBuffer): Uint32Array | Uint16Array =>
  elementBytes(dtype) === 4 ? new Uint32Array(buffer, at, n) : new Uint16Array(buffer, at, n)

type Lying = Pick<NotedTensor, 'at' | 'n' | 'dtype'>

/** One other bit of a number gives another mark: every step is one to one. */
export function markOf(seed: number, tensor: Lying, buffer: SharedArrayBuffer): number {
  const bits = bitsOf(tensor, buffer)
  const { size, infinity } = nanBitsOf(tensor.dtype)
  let mark = seed
  for (let i = 0; i < bits.length; i++) {
    mark = Math.imul(mark ^ ((bits[i] & size) > infinity ? size : bits[i]), 0x9e3779b1)
    mark = (mark << 13) | (mark >>> 19)
  }
  return mark >>> 0
}

function badIn(command: number, { results, operands }: Note, buffer: SharedArrayBuffer): Found | undefined {
  const elementsOf = ({ dtype, at, n }: NotedTensor) => viewOf(dtype, buffer, at, n)
  for (const tensor of results) {
    const { ref, dtype } = tensor
    const elements = elementsOf(tensor)
    const index = firstNotFinite(dtype, elements, tensor.ofNothing)
    if (index < 0) continue
    const of = operands.map(operand => ({ ref: operand.ref, most: greatestIn(operand.dtype, elementsOf(operand)) }))
    return { command, ref, index, value: decode(dtype, elements[index]), of }
  }
  return undefined
}
