/**
 * The error function and the activations made of it. Near zero erf is a series of positive terms, far out its
 * complement is a continued fraction (Abramowitz and Stegun 7.1.6 and 7.1.14), so neither cancels.
 */
const crossover = 2

/** erf x = 2/sqrt(pi) exp(-x^2) sum of 2^n x^(2n+1) / (1 3 5 ... 2n+1). */
function erfSeries(x: number): number {
  let term = x
  let sum = x
  for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1)
    sum += term
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum
}

/** erfc x = exp(-x^2)/sqrt(pi) / (x + (1/2)/(x + 1/(x + (3/2)/(x + ...)))), from the inside out. */
function erfcFraction(x: number): number {
  let tail = x
  for (let n = 60; n >= 1; n--) tail = x + n / 2 / tail
  return Math.exp(-x * x) / Math.sqrt(Math.PI) / tail
}

export const erf = (x: number): number =>
  Math.abs(x) < crossover ? erfSeries(x) : Math.sign(x) * (1 - erfcFraction(Math.abs(x)))

/** 1 - erf x, with all its digits where that is tiny. */
export const erfc = (x: number): number => (x < crossover ? 1 - erf(x) : erfcFraction(x))

const normalCumulative = (x: number) => erfc(-x / Math.SQRT2) / 2
const normalDensity = (x: number) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI)

export const gelu = (x: number): number => x * normalCumulative(x)
export const geluSlope = (x: number): number => normalCumulative(x) + x * normalDensity(x)

const tanhScale = Math.sqrt(2 / Math.PI)
const tanhCubic = 0.044715

export const geluTanh = (x: number): number => (x / 2) * (1 + Math.tanh(tanhScale * (x + tanhCubic * x ** 3)))
export function geluTanhSlope(x: number): number {
  const tanh = Math.tanh(tanhScale * (x + tanhCubic * x ** 3))
  return (1 + tanh) / 2 + (x / 2) * (1 - tanh * tanh) * tanhScale * (1 + 3 * tanhCubic * x * x)
}

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x))
export const silu = (x: number): number => x * sigmoid(x)
export const siluSlope = (x: number): number => sigmoid(x) * (1 + x * (1 - sigmoid(x)))
