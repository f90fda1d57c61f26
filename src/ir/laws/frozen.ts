/** P11: what is frozen lies at the end of a step as it lay at its start, and nothing else is kept of it. */
import { stateEntries } from '../../base/index.js'
import type { Program } from '../program.js'
import { heldAs, valueOfParam } from './kept.js'
import type { Finding } from './law.js'
import { told } from './phrases.js'
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
        const of = { param: param.name }
        const frame = streams[pipeline].frames[held.param].name
        const end = left(pipeline, held.param)
        const isSame = end && same(end, heldAs(param, valueOfParam(param.name)))
        return [
          ...(isSame ? [] : [told('P/frozen-changed', { ...of, frame })]),
          ...(held.grad === undefined ? [] : [told('P/frozen-gradient', of)]),
          ...stateEntries(held.states).map(([state]) => told('P/frozen-state', { ...of, state })),
        ].map(said => ({ law: 'P11', pipeline, ...said }))
      }),
    )
}
