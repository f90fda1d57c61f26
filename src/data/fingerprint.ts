/** What data a run was trained on, in 16 letters: two FNV-1a sums over the values. Not for secrets. */
export function fingerprint(name: string, values: ArrayLike<number>): string {
  let [a, b] = [0x811c9dc5, 0x01234567]
  const add = (value: number) => {
    a = Math.imul(a ^ value, 0x01000193)
    b = Math.imul(b ^ (value + 0x9e37), 0x85ebca6b)
    b ^= b >>> 13
  }
  for (let i = 0; i < name.length; i++) add(name.charCodeAt(i))
  for (let i = 0; i < values.length; i++) add(values[i])
  return [a, b].map(half => (half >>> 0).toString(16).padStart(8, '0')).join('')
}
