/** What lives from step to step: parameters, their gradients and states, scalars, and the results. */
import { scalarEntries, stateEntries } from '../../base/index.js'
import { scalarStarts, stateSpace } from '../../plan/index.js'
import { evaluates } from '../compiled.js'
import { lineBytes, localBytes } from '../segment.js'
import type { StreamContext } from './context.js'
import { frameNames } from './frames.js'

export function residents({ compiled, held, results, out }: StreamContext): void {
  const { s } = compiled
  for (const { spec, dtype, gradientDtype, segments } of held) {
    const { kept, gradient, space } = segments
    const keptBytes = kept.inside ? lineBytes : localBytes
    const paramBytes = keptBytes(s, { ...spec, dtype }, kept.layout)
    out.resident(frameNames.param(spec.name), { kind: 'parameters', bytes: paramBytes, ...(space && { space }) })
    if (gradient) {
      const bytes = localBytes(s, { ...spec, dtype: gradientDtype }, gradient.accumulated)
      out.resident(frameNames.grad(spec.name), { kind: 'gradients', bytes })
    }
    for (const [state, tensor] of stateEntries(segments.states)) {
      const bytes = localBytes(s, tensor, tensor.layout)
      out.resident(frameNames.state(state, spec.name), { kind: 'optimizer', bytes, ...stateSpace(compiled.plan, spec) })
    }
  }
  for (const [name] of evaluates(compiled) ? [] : scalarEntries(scalarStarts(compiled.training)))
    out.resident(frameNames.scalar(name), { kind: 'workspace', bytes: 4 })
  for (const name of results) out.resident(frameNames.result(name), { kind: 'workspace', bytes: 4 })
}
