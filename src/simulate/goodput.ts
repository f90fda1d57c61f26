/**
 * How often devices fail and what a failure costs. Failures are exponentially distributed, and each loses the work
 * since the last checkpoint. Young (1974) gives the first order of the best interval, Daly (2006) the higher order and
 * the expected time used here.
 */
export interface Failures {
  /** Mean seconds between failures of one device. */
  readonly mtbf: number
  readonly devices: number
  /** Seconds that training is paused for a checkpoint, and from a failure until it resumes. */
  readonly checkpoint: number
  readonly restart: number
}

/** The fraction of time that makes progress when devices fail, with the best checkpoint interval (Young, Daly). */
export interface Goodput {
  /** Mean seconds between failures of any device. */
  readonly mtbf: number
  /** Seconds of training between checkpoints: as given, or the optimum. */
  readonly interval: number
  readonly young: number
  readonly daly: number
  /** The fraction of time that makes progress, with that interval. */
  readonly share: number
}

/** Goodput at a failure rate, with the checkpoint interval given or the best one. */
export function goodputOf(failures: Failures, interval?: number): Goodput {
  const mtbf = failures.mtbf / failures.devices
  const [young, daly] = [youngInterval(failures.checkpoint, mtbf), dalyInterval(failures.checkpoint, mtbf)]
  const chosen = interval ?? daly
  return { mtbf, interval: chosen, young, daly, share: usefulShare(failures, mtbf, chosen) }
}

const youngInterval = (checkpoint: number, mtbf: number): number => Math.sqrt(2 * checkpoint * mtbf)

function dalyInterval(checkpoint: number, mtbf: number): number {
  if (checkpoint >= 2 * mtbf) return mtbf
  const ratio = checkpoint / (2 * mtbf)
  return youngInterval(checkpoint, mtbf) * (1 + Math.sqrt(ratio) / 3 + ratio / 9) - checkpoint
}

/** Useful seconds of one interval over the seconds it is expected to take, attempts that failed included. */
export function usefulShare({ checkpoint, restart }: Failures, mtbf: number, interval: number): number {
  // Without checkpoints to write the best interval is none at all: only restarts cost.
  if (interval <= 0) return Math.exp(-restart / mtbf)
  return interval / (mtbf * Math.exp(restart / mtbf) * Math.expm1((interval + checkpoint) / mtbf))
}
