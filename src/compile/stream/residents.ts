/** What lives from step to step: parameters, their gradients and states, scalars, and the results. */
import { type DType, type Layout, scalarEntries } from '../../base/index.js'
import { scalarStarts } from '../../plan/index.js'
import { evaluates } from '../compiled.js'
import { lineBytes, localBytes } from '../segment.js'
import type { StreamContext } from './context.js'
import { frameNames } from './frames.js'

export function residents({ compiled, held, results, out }: StreamContext): void {
  const { s } = compiled
  for (const { spec, dtype, gradientDtype, stateDtype, segments } of held) {
    const { kept, gradient } = segments
    const bytes = (layout: Layout, dtype: DType) => localBytes(s, { ...spec, dtype }, layout)
    const keptBytes = kept.inside ? lineBytes : localBytes
    out.resident(frameNames.param(spec.name), 'parameters', keptBytes(s, { ...spec, dtype }, kept.layout))
    if (gradient) out.resident(frameNames.grad(spec.name), 'gradients', bytes(gradient.accumulated, gradientDtype))
    for (const state of segments.states)
      out.resident(frameNames.state(state, spec.name), 'optimizer', bytes(segments.state, stateDtype))
  }
  for (const [name] of evaluates(compiled) ? [] : scalarEntries(scalarStarts(compiled.training)))
    out.resident(frameNames.scalar(name), 'workspace', 4)
  for (const name of results) out.resident(frameNames.result(name), 'workspace', 4)
}
