/**
 * Counter-based random numbers: philox4x32-10 (Salmon et al., SC11). A number depends on its key and its index
 * alone, so every plan starts from the same weights and sees the same dropout masks, whichever rank asks first.
 */
const mulHigh = (a: number, b: number): number => {
  const [al, ah, bl, bh] = [a & 0xffff, a >>> 16, b & 0xffff, b >>> 16]
  const low = Math.imul(al, bl) >>> 0
  const middle = ah * bl + (low >>> 16)
  const cross = al * bh + (middle % 0x10000)
  return ah * bh + Math.floor(middle / 0x10000) + Math.floor(cross / 0x10000)
}

export type Words = readonly [number, number, number, number]

export function philox(counter: Words, key: readonly [number, number]): Words {
  let [c0, c1, c2, c3] = counter
  let [k0, k1] = key
  for (let round = 0; round < 10; round++) {
    const [high0, low0] = [mulHigh(0xd2511f53, c0), Math.imul(0xd2511f53, c0) >>> 0]
    const [high1, low1] = [mulHigh(0xcd9e8d57, c2), Math.imul(0xcd9e8d57, c2) >>> 0]
    ;[c0, c1, c2, c3] = [(high1 ^ c1 ^ k0) >>> 0, low1, (high0 ^ c3 ^ k1) >>> 0, low0]
    k0 = (k0 + 0x9e3779b9) >>> 0
    k1 = (k1 + 0xbb67ae85) >>> 0
  }
  return [c0, c1, c2, c3]
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

/** Numbers in [0, 1) by index. */
export function uniform({ seed, name, step = 0 }: Source): (index: number) => number {
  const key = [seed >>> 0, hashName(name)] as const
  return index => philox([index >>> 0, Math.floor(index / 2 ** 32), step, 0], key)[0] / 2 ** 32
}

/** Standard normal numbers by index, rounded to f32 so that f32 and f64 runs start from the same weights. */
export function normal({ seed, name, step = 0 }: Source): (index: number) => number {
  const key = [seed >>> 0, hashName(name)] as const
  return index => {
    const [a, b] = philox([index >>> 0, Math.floor(index / 2 ** 32), step, 1], key)
    return Math.fround(Math.sqrt(-2 * Math.log((a + 1) / 2 ** 32)) * Math.cos((2 * Math.PI * b) / 2 ** 32))
  }
}

/** A small generator for tests and random plans: the same seed, the same choices. */
export function choices(seed: number) {
  const next = uniform({ seed, name: 'choices' })
  let index = 0
  const int = (below: number) => Math.floor(next(index++) * below)
  return { int, pick: <T>(list: readonly T[]): T => list[int(list.length)], chance: (p: number) => next(index++) < p }
}
