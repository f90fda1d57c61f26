/**
 * Counter-based random numbers: philox4x32-10 (Salmon et al., SC11). A number depends on its key and its index
 * alone, so every plan starts from the same weights and sees the same dropout masks, whichever rank asks first.
 */
const mulHigh = (a: number, b: number): number => {
  const al = a & 0xffff
  const ah = a >>> 16
  const bl = b & 0xffff
  const bh = b >>> 16
  const middle = ah * bl + (Math.imul(al, bl) >>> 16)
  const cross = al * bh + (middle & 0xffff)
  return (ah * bh + ((middle / 0x10000) >>> 0) + (cross >>> 16)) >>> 0
}

export type Words = readonly [number, number, number, number]

export function philox(counter: Words, key: readonly [number, number]): Words {
  // By index, and into plain variables: taking arrays apart here costs more than the arithmetic.
  let c0 = counter[0]
  let c1 = counter[1]
  let c2 = counter[2]
  let c3 = counter[3]
  let k0 = key[0]
  let k1 = key[1]
  for (let round = 0; round < 10; round++) {
    const high0 = mulHigh(0xd2511f53, c0)
    const high1 = mulHigh(0xcd9e8d57, c2)
    const low0 = Math.imul(0xd2511f53, c0)
    const low1 = Math.imul(0xcd9e8d57, c2)
    c0 = high1 ^ c1 ^ k0
    c2 = high0 ^ c3 ^ k1
    c1 = low1
    c3 = low0
    k0 = (k0 + 0x9e3779b9) | 0
    k1 = (k1 + 0xbb67ae85) | 0
  }
  return [c0 >>> 0, c1 >>> 0, c2 >>> 0, c3 >>> 0]
}

/** FNV-1a: a 32-bit key for a name. */
export function hashName(name: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193)
  return hash >>> 0
}

/** Which stream of random numbers: of a seed, a name, and (for what changes with time) a step. */
export interface Source {
  readonly seed: number
  readonly name: string
  readonly step?: number
}

/** The name of the mask that an op draws in a block. */
export const maskName = (block: string, key: string): string => (block === '' ? key : `${block}.${key}`)

/** Numbers in [0, 1) by index. */
export function uniform({ seed, name, step = 0 }: Source): (index: number) => number {
  const key = [seed >>> 0, hashName(name)] as const
  return index => philox([index >>> 0, Math.floor(index / 2 ** 32), step, 0], key)[0] / 2 ** 32
}

/** Numbers of 16 bits by index: by what they are, a number is rounded up or down. */
export function draws({ seed, name, step = 0 }: Source): (index: number) => number {
  const key = [seed >>> 0, hashName(name)] as const
  return index => philox([index >>> 0, Math.floor(index / 2 ** 32), step, 2], key)[0] & 0xffff
}

/** Standard normal numbers by index, rounded to f32 so that f32 and f64 runs start from the same weights. */
export function normal({ seed, name, step = 0 }: Source): (index: number) => number {
  const key = [seed >>> 0, hashName(name)] as const
  return index => {
    const words = philox([index >>> 0, Math.floor(index / 2 ** 32), step, 1], key)
    const radius = Math.sqrt(-2 * Math.log((words[0] + 1) / 2 ** 32))
    return Math.fround(radius * Math.cos((2 * Math.PI * words[1]) / 2 ** 32))
  }
}

/** A small generator for tests and random plans: the same seed, the same choices. */
export function choices(seed: number) {
  const next = uniform({ seed, name: 'choices' })
  let index = 0
  const int = (below: number) => Math.floor(next(index++) * below)
  return { int, pick: <T>(list: readonly T[]): T => list[int(list.length)], chance: (p: number) => next(index++) < p }
}
