/** What lives from step to step: parameters, their gradients and states, scalars, and the results. */
import { scalarEntries, stateEntries } from '../../base/index.js'
import { scalarStarts } from '../../plan/index.js'
import { evaluates } from '../compiled.js'
import { lineBytes, localBytes } from '../segment.js'
import type { StreamContext } from './context.js'
import { frameNames } from './frames.js'

export function residents({ compiled, held, results, out }: StreamContext): void {
  const { s } = compiled
  for (const { spec, dtype, gradientDtype, segments } of held) {
    const { kept, gradient } = segments
    const keptBytes = kept.inside ? lineBytes : localBytes
    out.resident(frameNames.param(spec.name), 'parameters', keptBytes(s, { ...spec, dtype }, kept.layout))
    if (gradient)
      out.resident(
        frameNames.grad(spec.name),
        'gradients',
        localBytes(s, { ...spec, dtype: gradientDtype }, gradient.accumulated),
      )
    for (const [state, tensor] of stateEntries(segments.states))
      out.resident(frameNames.state(state, spec.name), 'optimizer', localBytes(s, tensor, tensor.layout))
  }
  for (const [name] of evaluates(compiled) ? [] : scalarEntries(scalarStarts(compiled.training)))
    out.resident(frameNames.scalar(name), 'workspace', 4)
  for (const name of results) out.resident(frameNames.result(name), 'workspace', 4)
}
