/** Whole numbers: what divides what, and what would. */

export const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b))

export const lcm = (a: number, b: number): number => (a / gcd(a, b)) * b

export const roundUp = (n: number, multiple: number): number => Math.ceil(n / multiple) * multiple

/** In order. */
export function divisors(n: number): number[] {
  const small: number[] = []
  for (let i = 1; i * i <= n; i++) if (n % i === 0) small.push(i)
  const large = small.filter(i => i * i < n).map(i => n / i)
  return [...small, ...large.reverse()]
}

/** The divisors of n nearest to `around`, below and above, nearest first. */
export function divisorsNear(n: number, around: number): number[] {
  const divisors: number[] = []
  for (let i = 1; i * i <= n && i < 100_000; i++) if (n % i === 0) divisors.push(i, n / i)
  const below = Math.max(...divisors.filter(d => d <= around), 0)
  const above = Math.min(...divisors.filter(d => d > around), Number.POSITIVE_INFINITY)
  return [below, above].filter(d => d > 0 && d < Number.POSITIVE_INFINITY)
}

/** n in as many parts, the earlier ones one greater where it does not divide. */
export const evenParts = (n: number, parts: number): number[] =>
  Array.from({ length: parts }, (_, i) => Math.floor(n / parts) + (i < n % parts ? 1 : 0))
