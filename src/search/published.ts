/** The plan we would choose where somebody else chose one: the same model, batch, devices and software. */
import { EstimateBook, type FrameworkName, frameworks, type Setup, type Shape } from '../estimate/index.js'
import { ModelConfig } from '../model/index.js'
import { abilitiesOf } from './abilities.js'
import { type Constraint, parseConstraints } from './constraint.js'
import type { Request } from './request.js'

export interface PublishedRun extends Pick<Setup, 'shape' | 'cluster' | 'precision' | 'software'> {
  readonly globalBatch: number
}

/** `constraints`: what plans keep to, where that is not what the software can do. */
export const requestOfRun = (run: PublishedRun, constraints?: readonly string[]): Request => ({
  ...run,
  ...{ model: modelOf(run.shape), published: true, book: new EstimateBook() },
  constraints: constraints ? parseConstraints(constraints).constraints : abilitiesNamed(run.software.name),
})

/** The same of a run whose plan is known. */
export const requestOfSetup = ({ split, ...run }: Setup, constraints?: readonly string[]): Request =>
  requestOfRun({ ...run, globalBatch: split.dp * split.microbatches * split.microbatch }, constraints)

const abilitiesNamed = (name: string): readonly Constraint[] => (isFramework(name) ? abilitiesOf(name) : [])

const isFramework = (name: string): name is FrameworkName => Object.hasOwn(frameworks, name)

/** What `search` looks at of a model beside its shape: whether its dims can be split. */
function modelOf(shape: Shape): ModelConfig {
  const { layers, embed, heads, kvHeads, headDim, ffn, vocab, tied, experts, latent } = shape
  const sizes = { layers, embed, heads, kvHeads, ffn, vocab, tied }
  if (shape.positions === 'learned') return ModelConfig.parse({ family: 'gpt', ...sizes })
  return ModelConfig.parse({
    ...{ family: 'llama', ...sizes },
    ...(experts && { moe: { experts: experts.count, topK: experts.active, ffn: experts.ffn } }),
    ...(latent
      ? {
          mla: {
            ...{ kvLoraRank: latent.keyValues, qkRopeHeadDim: latent.turned, qkNopeHeadDim: latent.plain },
            ...{ vHeadDim: latent.values, ...(latent.queries && { qLoraRank: latent.queries }) },
          },
        }
      : { headDim }),
  })
}
