/** Length and cost of a whole run. */
import type { StepWork } from './rates.js'

export interface Budget {
  readonly tokens: number
  /** US dollars per device-hour. */
  readonly price?: number
  /** Useful share of the time of a run. */
  readonly goodput?: number
}

/** Length and cost of a training run. */
export interface Run {
  readonly steps: number
  readonly days: number
  readonly deviceHours: number
  readonly dollars?: number
}

/** Days, device hours and dollars of a run over a number of tokens. */
export function runOf(
  step: number,
  work: Pick<StepWork, 'tokens' | 'devices'>,
  { tokens, price, goodput = 1 }: Budget,
): Run {
  const steps = Math.ceil(tokens / work.tokens)
  const hours = (steps * step) / goodput / 3600
  const deviceHours = hours * work.devices
  return { steps, days: hours / 24, deviceHours, ...(price === undefined ? {} : { dollars: deviceHours * price }) }
}
