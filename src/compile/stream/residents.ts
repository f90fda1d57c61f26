/** What lives from step to step: parameters, their gradients and states, scalars, and the results. */
import { type Layout, scalarEntries } from '../../base/index.js'
import { scalarStarts, stateSpace } from '../../plan/index.js'
import { evaluates } from '../compiled.js'
import { lineBytes, localBytes } from '../segment.js'
import type { StreamContext } from './context.js'
import { frameNames } from './frames.js'

export function residents({ compiled, held, results, out }: StreamContext): void {
  const { s } = compiled
  const away = stateSpace(compiled.plan)
  for (const { spec, dtype, stateDtype, segments } of held) {
    const { kept, gradient } = segments
    const bytes = (layout: Layout) => localBytes(s, { ...spec, dtype: stateDtype }, layout)
    const keptBytes = kept.inside ? lineBytes : localBytes
    out.resident(frameNames.param(spec.name), {
      kind: 'parameters',
      bytes: keptBytes(s, { ...spec, dtype }, kept.layout),
    })
    if (gradient) out.resident(frameNames.grad(spec.name), { kind: 'gradients', bytes: bytes(gradient.accumulated) })
    for (const state of segments.states)
      out.resident(frameNames.state(state, spec.name), { kind: 'optimizer', bytes: bytes(segments.state), ...away })
  }
  for (const [name] of evaluates(compiled) ? [] : scalarEntries(scalarStarts(compiled.training)))
    out.resident(frameNames.scalar(name), { kind: 'workspace', bytes: 4 })
  for (const name of results) out.resident(frameNames.result(name), { kind: 'workspace', bytes: 4 })
}
