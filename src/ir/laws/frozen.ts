/** P11: what is frozen lies at the end of a step as it lay at its start, and nothing else is kept of it. */
import { stateEntries } from '../../base/index.js'
import type { Program } from '../program.js'
import { heldAs, valueOfParam } from './kept.js'
import type { Finding } from './law.js'
import { same, type Value } from './value.js'

/** `left`: what lies in a frame when the step has ended. */
export function untouched(
  { params, streams }: Program,
  left: (pipeline: number, frame: number) => Value | undefined,
): Finding[] {
  return params
    .filter(({ frozen }) => frozen)
    .flatMap(param =>
      Object.entries(param.frames).flatMap(([stream, held]): Finding[] => {
        const pipeline = Number(stream)
        const say = (message: string): Finding => ({
          law: 'P11',
          pipeline,
          message: `${param.name} is frozen, ${message}`,
        })
        const end = left(pipeline, held.param)
        const isSame = end && same(end, heldAs(param, valueOfParam(param.name)))
        const others = [
          ...(held.grad === undefined ? [] : ['a gradient']),
          ...stateEntries(held.states).map(([state]) => `the state ${state}`),
        ]
        return [
          ...(isSame ? [] : [say(`and ${streams[pipeline].frames[held.param].name} does not hold what it held`)]),
          ...others.map(other => say(`and has ${other}`)),
        ]
      }),
    )
}
