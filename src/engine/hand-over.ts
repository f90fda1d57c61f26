/**
 * All that lives from step to step, from one runner to the next. Rank by rank, since ranks have residuals of their own; both programs have the same mesh, and
 * lay parameters and states alike.
 */
import { coordinatesOf, type Rank, stateEntries, worldOf } from '../base/index.js'
import { type Kept, ownRange, parameterOf, stateOf } from '../geometry/index.js'
import type { Param, ParamFrames, Program } from '../ir/index.js'
import type { Held, Runner } from './runner.js'

/** A runner, and what it runs. */
export interface Running {
  readonly program: Program
  readonly runner: Pick<Runner, 'held' | 'hold' | 'scalars' | 'setScalars'>
}

export function handOver(from: Running, to: Running): void {
  const params = new Map(to.program.params.map(param => [param.name, param]))
  for (const before of from.program.params) {
    const after = params.get(before.name)
    if (!after) throw new Error(`internal: the next program has no parameter ${before.name}`)
    for (let rank = 0; rank < worldOf(to.program.mesh); rank++) copyParam(from, to, { rank, before, after })
  }
  to.runner.setScalars(from.runner.scalars())
}

interface Copied {
  readonly rank: Rank
  readonly before: Param
  readonly after: Param
}

function copyParam(from: Running, to: Running, { rank, before, after }: Copied): void {
  const pp = coordinatesOf(to.program.mesh, rank).pp ?? 0
  const frames = after.frames[pp]
  if (!frames) return
  const kept = (param: Param): Kept[] => [
    parameterOf(param),
    ...stateEntries(frames.states).map(([state]) => stateOf(param, state)),
  ]
  const theirs = kept(before)
  for (const [i, own] of kept(after).entries()) {
    const [source, begin, end] = placeOf(from.program, theirs[i], rank, before.frames[pp])
    const [target, first, last] = placeOf(to.program, own, rank, frames)
    if (last - first !== end - begin) throw new Error(`internal: the next program lays ${after.name} otherwise`)
    to.runner.hold({ ...target, first }, from.runner.held({ ...source, first: begin }).subarray(0, end - begin))
  }
}

/** The frame of a rank, and which of its elements are the own part. */
function placeOf(
  { mesh }: Program,
  { dims, holding, dtype, frameOf }: Kept,
  rank: Rank,
  frames: ParamFrames,
): readonly [place: Omit<Held, 'first'>, begin: number, end: number] {
  const [begin, end] = ownRange({ mesh, dims, ...holding }, coordinatesOf(mesh, rank))
  const frame = frameOf(frames)
  if (frame === undefined) throw new Error('internal: a rank lacks a frame of a state that it keeps')
  return [{ rank, frame, dtype }, begin, end]
}
