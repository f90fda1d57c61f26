/** Memory over a stream: after each of its steps the bytes that are live, by kind. Their greatest are the stream's peaks. */
import type { Space } from '../base/index.js'
import { type Kind, kinds, noBytes, type Stream, spaceOf } from './program.js'

/** Live bytes after each step, by category. */
export type LiveBytes = Readonly<Record<Kind, Float64Array<ArrayBuffer>>>

/** Live bytes by category after each step of a stream. */
export function liveBytes({ steps, frames, resident }: Stream, space: Space = 'device'): LiveBytes {
  const columns = Object.fromEntries(kinds.map(kind => [kind, new Float64Array(steps.length)])) as Record<
    Kind,
    Float64Array<ArrayBuffer>
  > // every kind is in `kinds`
  const live = liveAtStart({ frames, resident }, space)
  for (let at = 0; at < steps.length; at++) {
    const step = steps[at]
    if (step.kind === 'alloc' || step.kind === 'free') {
      const frame = frames[step.frame]
      if (spaceOf(frame) === space) live[frame.kind] += step.kind === 'alloc' ? frame.bytes : -frame.bytes
    }
    for (const kind of kinds) columns[kind][at] = live[kind]
  }
  return columns
}

/** What lives from step to step. */
export function liveAtStart({ frames, resident }: Pick<Stream, 'frames' | 'resident'>, space: Space = 'device') {
  const live = noBytes()
  for (const index of resident) if (spaceOf(frames[index]) === space) live[frames[index].kind] += frames[index].bytes
  return live
}
