/** In ascending order. */
export function divisors(n: number): number[] {
  if (!Number.isInteger(n) || n < 1) return [1]
  const small: number[] = []
  for (let d = 1; d * d <= n; d++) if (n % d === 0) small.push(d)
  return [...new Set([...small, ...small.map(d => n / d)])].sort((a, b) => a - b)
}
