/**
 * Which value a buffer holds, as an element of an abelian group: two words, added word by word. What an op
 * computes is a hash of what it was given; a sum is the sum of its addends. So sums compare equal whatever
 * their order and nesting, and an addend lost or counted twice shows.
 */
export interface Value {
  readonly a: number
  readonly b: number
}

export const nothing: Value = { a: 0, b: 0 }

export const plus = (x: Value, y: Value): Value => ({ a: (x.a + y.a) | 0, b: (x.b + y.b) | 0 })
export const minus = (x: Value, y: Value): Value => ({ a: (x.a - y.a) | 0, b: (x.b - y.b) | 0 })
export const same = (x: Value, y: Value): boolean => x.a === y.a && x.b === y.b

/** 53 of the 64 bits, as a key for maps. */
export const keyOf = (a: number, b: number): number => (a >>> 0) * 2 ** 21 + (b >>> 11)

/** Two rounds of multiply and shift; the two words differ in their constants. */
export const mixA = (h: number, x: number): number => {
  h = Math.imul(h ^ x, 0x9e3779b1)
  return Math.imul(h ^ (h >>> 15), 0x85ebca77)
}
export const mixB = (h: number, x: number): number => {
  h = Math.imul(h ^ x, 0xc2b2ae3d)
  return Math.imul(h ^ (h >>> 13), 0x27d4eb2f)
}

/** Murmur's last step: every bit of the input moves every bit of the result. */
export const finish = (h: number): number => {
  h = Math.imul(h ^ (h >>> 16), 0x7feb352d)
  h = Math.imul(h ^ (h >>> 15), 0x846ca68b)
  return h ^ (h >>> 16)
}

export function hashText(text: string): Value {
  let [a, b] = [0x51ed270b, 0x2f0b4a87]
  for (let i = 0; i < text.length; i++) {
    a = mixA(a, text.charCodeAt(i))
    b = mixB(b, text.charCodeAt(i))
  }
  return { a: finish(a), b: finish(b) }
}

export function hashValues(salt: Value, values: readonly Value[]): Value {
  let { a, b } = salt
  for (const value of values) {
    a = mixA(mixA(a, value.a), value.b)
    b = mixB(mixB(b, value.b), value.a)
  }
  return { a: finish(a), b: finish(b) }
}

/** The share of one turn: those of all turns that are needed, each once, add up to the value. */
export function shareOf(
  value: Value,
  { turn, needed: [first, ...others] }: { turn: number; needed: readonly number[] },
) {
  const part = (of: number): Value => hashValues(value, [{ a: of, b: ~of }])
  if (turn !== first) return part(turn)
  return others.map(part).reduce((rest, { a, b }) => plus(rest, { a: -a, b: -b }), value)
}
