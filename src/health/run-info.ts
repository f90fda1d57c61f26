/** about.json: what ran, where and since when. */
import type { Along, Shares } from '../trace/index.js'

export const runFormat = 'lockstep-run-1'

export interface RunInfo {
  readonly format: typeof runFormat
  /** Tells it from every other run. */
  readonly run: string
  /** ISO 8601. */
  readonly started: string
  readonly software: 'engine' | 'emitted'
  readonly world: number
  /** What computes: the kernels of the engine, or the device of an emitted program. */
  readonly kernels?: string
  readonly device?: string
  readonly host: string
  /** Of the host, where ranks are threads of it. */
  readonly cores?: number
  /** What a step was predicted to take, where somebody did. */
  readonly prediction?: Prediction
}

export interface Prediction {
  /** On what, in words. */
  readonly cluster: string
  /** The file that says what that is, where it is one. */
  readonly file?: string
  /** Of a step. */
  readonly seconds: number
  /** Where the time of the ranks goes. */
  readonly shares?: Shares
  /** Seconds that a rank of each pipeline coordinate is busy. */
  readonly stages?: readonly number[]
  /** Seconds of a step in collectives along each axis that nothing hides. */
  readonly network?: Readonly<Partial<Record<Along, number>>>
}

/** undefined: not a about.json, or of a later format. */
export function runInfoOf(value: unknown): RunInfo | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const info = value as Partial<RunInfo> // what is used is looked at below
  const named = typeof info.run === 'string' && typeof info.started === 'string' && typeof info.host === 'string'
  const known = info.software === 'engine' || info.software === 'emitted'
  return info.format === runFormat && named && known && typeof info.world === 'number' ? (info as RunInfo) : undefined
}
