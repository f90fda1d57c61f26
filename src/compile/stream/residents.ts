/** What lives from step to step: parameters, their gradients and states, and the results. */
import type { Layout } from '../../base/index.js'
import { localBytes } from '../segment.js'
import type { StreamContext } from './context.js'
import { frameNames } from './frames.js'

export function residents({ compiled: { s }, held, results, out }: StreamContext): void {
  for (const { spec, dtype, stateDtype, grad, segments } of held) {
    const bytes = (layout: Layout) => localBytes(s, { ...spec, dtype: stateDtype }, layout)
    out.resident(frameNames.param(spec.name), 'parameters', localBytes(s, { ...spec, dtype }, segments.kept))
    if (grad) out.resident(frameNames.grad(spec.name), 'gradients', bytes(grad))
    for (const state of segments.states)
      out.resident(frameNames.state(state, spec.name), 'optimizer', bytes(segments.state))
  }
  for (const name of results) out.resident(frameNames.result(name), 'workspace', 4)
}
