/** The shape of a slice: as near to a square or a cube as the number of devices allows, the longest dim first. */
export function sliceOf(devices: number, dims: 2 | 3): number[] {
  if (dims === 2) {
    const short = largestDivisor(devices, Math.sqrt(devices))
    return [devices / short, short]
  }
  const short = largestDivisor(devices, Math.cbrt(devices))
  return [...sliceOf(devices / short, 2), short]
}

function largestDivisor(n: number, most: number): number {
  for (let divisor = Math.floor(most + 1e-9); divisor > 1; divisor--) if (n % divisor === 0) return divisor
  return 1
}
