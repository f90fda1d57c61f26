/** Random operands for the cases of kernels, and what the interpreter makes of them. */
import { choices, type Dim, elementsOf, hashName, normal, type Op } from '../src/base/index.js'
import type { CommandName } from '../src/engine/native/index.js'
import { runOp, type Tensor } from './tiny.js'

export interface KernelCase {
  readonly command: CommandName
  /** Operands by word. */
  readonly ins: Readonly<Record<string, ArrayLike<number>>>
  /** Operands that are i32. */
  readonly ids?: Readonly<Record<string, ArrayLike<number>>>
  /** Results that are read before they are written, by word. */
  readonly initial?: Readonly<Record<string, ArrayLike<number>>>
  /** A list of words is an array. */
  readonly words: Readonly<Record<string, number | readonly number[]>>
  readonly expected: Readonly<Record<string, ArrayLike<number>>>
  readonly bound: number
  /** Results that are i32. */
  readonly integers?: readonly string[]
  readonly magnitude?: number | Readonly<Record<string, ArrayLike<number> | number>>
}

export type Make = (d: ReturnType<typeof draw>) => KernelCase

export const sizes = [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 70]

export function draw(seed: number, command: string) {
  const { int, pick, chance } = choices(seed * 7919 + hashName(command))
  const noise = normal({ seed, name: command })
  let drawn = 0
  const size = (...more: number[]) => (chance(0.04) ? 0 : pick([...sizes, ...more]))
  const values = (n: number, spread = 1) => Float32Array.from({ length: n }, () => spread * noise(drawn++))
  const dims = (given: Record<string, number>): Dim[] => Object.entries(given).map(([name, size]) => ({ name, size }))
  const tensor = (given: Record<string, number>, spread = 1): Tensor & { values: Float32Array } => {
    const named = dims(given)
    return { dims: named, values: values(elementsOf(named), spread) }
  }
  const integers = (given: Record<string, number>, least: number, below: number): Tensor => {
    const named = dims(given)
    return { dims: named, values: Int32Array.from({ length: elementsOf(named) }, () => least + int(below - least)) }
  }
  return { seed, int, pick, chance, size, values, tensor, integers }
}

/** The op on tensors; `outs` are dims, or tensors that are read too. */
export function reference(
  op: Op,
  ins: readonly Tensor[],
  ...outs: (Record<string, number> | Tensor)[]
): Float64Array[] {
  const isTensor = (out: Record<string, number> | Tensor): out is Tensor => 'dims' in out
  const results = outs.map(out =>
    isTensor(out) ? out : { dims: Object.entries(out).map(([name, size]) => ({ name, size })), values: [] },
  )
  return runOp(op, ins, results, moment)
}

export const moment = { seed: 41, step: 3, block: 'block' }
export const absolute = ({ dims, values }: Tensor): Tensor => ({ dims, values: Array.from(values, Math.abs) })
export const largest = (values: ArrayLike<number>) => Array.from(values).reduce((a, b) => Math.max(a, Math.abs(b)), 0)

/** Operands of i32 that may be there, such as positions in documents; or the words that they are not. */
export const orNone = (
  names: readonly string[],
  given: readonly Tensor[],
  words: KernelCase['words'],
): Pick<KernelCase, 'ids' | 'words'> => ({
  ids: Object.fromEntries(given.map(({ values }, i) => [names[i], values])),
  words: { ...words, ...Object.fromEntries(names.slice(given.length).map(name => [name, 0])) },
})
