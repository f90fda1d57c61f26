/** Patterns of file names, as `case`, `[[ ]]` and `${V#p}` read them. */

/** `*` and `?` and `[abc]`; the time is at most the product of both lengths. */
export function matches(pattern: string, text: string): boolean {
  let [p, t, star, mark] = [0, 0, -1, 0]
  while (t < text.length) {
    const step = oneAt(pattern, p, text[t] ?? '')
    if (pattern[p] === '*') {
      star = p++
      mark = t
    } else if (step > 0) {
      p += step
      t++
    } else if (star >= 0) {
      p = star + 1
      t = ++mark
    } else return false
  }
  while (pattern[p] === '*') p++
  return p === pattern.length
}

/** How many characters of the pattern match this one; 0: it does not. */
function oneAt(pattern: string, at: number, char: string): number {
  if (at >= pattern.length) return 0
  if (pattern[at] === '?') return 1
  if (pattern[at] === '\\') return pattern[at + 1] === char ? 2 : 0
  const end = pattern[at] === '[' ? pattern.indexOf(']', at + 2) : -1
  if (end < 0) return pattern[at] === char ? 1 : 0
  const inner = pattern.slice(at + 1, end)
  const not = inner.startsWith('!') || inner.startsWith('^')
  return holds(not ? inner.slice(1) : inner, char) !== not ? end + 1 - at : 0
}

function holds(set: string, char: string): boolean {
  for (let i = 0; i < set.length; i++) {
    const last = set[i + 1] === '-' ? set[i + 2] : undefined
    if (last !== undefined && set[i] !== undefined && char >= (set[i] ?? '') && char <= last) return true
    if (set[i] === char) return true
  }
  return false
}

const most = 4096

/** `${text#pattern}` and its three relatives. */
export function without(text: string, pattern: string, op: string): string {
  if (text.length > most) return text
  const cuts = Array.from({ length: text.length + 1 }, (_, i) => i)
  const fits = (i: number) => matches(pattern, op.startsWith('#') ? text.slice(0, i) : text.slice(text.length - i))
  const longest = op.length === 2
  const found = (longest ? cuts.reverse() : cuts).find(fits)
  if (found === undefined) return text
  return op.startsWith('#') ? text.slice(found) : text.slice(0, text.length - found)
}

/** `${text/pattern/by}`: patterns without wildcards, which is what scripts write. */
export function replaced(text: string, op: string, pattern: string, by: string): string {
  if (pattern === '') return text
  if (op === '/#') return text.startsWith(pattern) ? by + text.slice(pattern.length) : text
  if (op === '/%') return text.endsWith(pattern) ? text.slice(0, -pattern.length) + by : text
  return op === '//' ? text.split(pattern).join(by) : text.replace(pattern, () => by)
}
