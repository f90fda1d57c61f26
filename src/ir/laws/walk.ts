/** Every step of every stream, with its place. */
import type { Program, Step, Stream } from '../program.js'

export interface WalkedStep {
  readonly pipeline: number
  readonly stream: Stream
  /** Index into the stream's steps. */
  readonly at: number
  readonly step: Step
}

export function* everyStep({ streams }: Program): Generator<WalkedStep> {
  for (const [pipeline, stream] of streams.entries())
    for (const [at, step] of stream.steps.entries()) yield { pipeline, stream, at, step }
}
