/** What is asked of the search, and the two ways between its plans (plain numbers) and jobs (what compiles). */
import { defaultOrder, error, oneRank, ProblemsError, precisionFacts, roundUp } from '../base/index.js'
import { type Cluster, type Precision, precisionProblem } from '../cluster/index.js'
import {
  EstimateBook,
  type FrameworkName,
  frameworks,
  ownSoftwareOf,
  planInput,
  precisionOf,
  type Setup,
  type Shape,
  type Software,
  type Split,
  shapeOf,
} from '../estimate/index.js'
import type { ModelConfig } from '../model/index.js'
import { adaptersOf, type Fp8Recipe, Job, type Lora, optimizerFor, type PlanInput } from '../plan/index.js'
import { abilitiesOf } from './abilities.js'
import type { Away } from './aways.js'
import { type Constraint, parseConstraints } from './constraint.js'
import type { ExtraName } from './extra-names.js'
import { refused } from './phrases.js'

/** A checked `PlanQuery`, with the caches that its estimates share. */
export interface Request {
  /** With a padded vocabulary, if requested. */
  readonly model: ModelConfig
  /** The model as the cost model takes it, with the sequence length of the training. */
  readonly shape: Shape
  readonly globalBatch: number
  /** Plans use all its devices. */
  readonly cluster: Cluster
  readonly precision: Precision
  readonly software: Software
  readonly constraints: readonly Constraint[]
  /** Options that plans may use in addition; within one search, those that all of them use. */
  readonly allowed?: readonly ExtraName[]
  readonly extras?: readonly ExtraName[]
  /** The FP8 recipe, if all plans of a search have one. */
  readonly recipe?: Fp8Recipe
  /** With offload: what all plans keep elsewhere. */
  readonly away?: Away
  /** Settings of the job that are not searched. */
  readonly said?: Said
  /** A published run: its model is known by its shape alone. */
  readonly published?: true
  /** The cache shared by plans of this request and of requests derived from it. */
  readonly book: EstimateBook
}

/** What numbers are stored in and scaled by, how parameters are updated, and which. */
export interface Said {
  readonly plan?: Pick<Job['plan'], 'precision' | 'gradients' | 'rounding' | 'fp8'>
  readonly training: Partial<Pick<Job['training'], 'optimizer' | 'ema' | 'lossScale' | 'lora'>>
  /** Where it is not the usual one: the cost model does not know it, programs do. */
  readonly rankOrder?: string
}

/** What `lockstep plan` is asked: model, batch, cluster, software and constraints. */
export interface PlanQuery {
  readonly model: ModelConfig
  readonly seq: number
  readonly globalBatch: number
  readonly cluster: Cluster
  readonly precision?: Precision
  /** The framework to model; only plans that it supports are searched. */
  readonly software?: FrameworkName
  /** False: the vocabulary is not padded, even if no tp divides it. */
  readonly padVocab?: boolean
  /** Constraints as a user writes them: `tp<=8`, `schedule=1f1b|interleaved`, `memory<=70GiB`. */
  readonly constraints?: readonly string[]
  /** Options that plans may use in addition: compression, offload, FP8. */
  readonly allow?: readonly ExtraName[]
  /** Only adapters are trained. */
  readonly lora?: Lora
}

/** Checks a query and prepares a request. Throws all that is wrong with it. */
export function requestOf({ seq, software = 'lockstep', padVocab = true, ...asked }: PlanQuery): Request {
  const { globalBatch, cluster, precision = 'bf16' } = asked
  const model = padVocab ? withPaddedVocab(asked.model) : asked.model
  const adapters = asked.lora && adaptersOf({ model, training: { lora: asked.lora } })
  const shape = shapeOf(model, seq, adapters)
  const { constraints, problems } = parseConstraints(asked.constraints ?? [])
  const asksFp8 = asked.allow?.includes('fp8')
  const missing =
    precisionProblem(cluster.device, precision, 'precision') ??
    (asksFp8 ? precisionProblem(cluster.device, 'fp8', '--allow') : undefined)
  const unknown = [...(asked.allow?.length ? ['--allow'] : []), ...(asked.lora ? ['--lora'] : [])]
  const foreign = software === 'lockstep' ? [] : unknown.map(option => unpricedBy(software, option))
  const all = [...(shape ? [] : [unpriced]), ...(missing ? [missing] : []), ...foreign, ...problems]
  if (!shape || all.length > 0) throw new ProblemsError(all)
  return {
    ...{ model, shape, globalBatch, cluster, precision, software: frameworks[software], book: new EstimateBook() },
    constraints: [...constraints, ...abilitiesOf(software)],
    ...(asked.allow && { allowed: asked.allow }),
    ...(asked.lora && { said: { training: { lora: asked.lora } } }),
  }
}

/** tp splits the vocabulary, and few vocabularies can be split: tables are padded, as everybody does. */
const withPaddedVocab = (model: ModelConfig): ModelConfig =>
  model.family === 'mlp' ? model : { ...model, vocab: roundUp(model.vocab, 128) }

const unpriced = refused('model', 'plan/model')

/** Of others' programs nobody knows what these would do. */
const unpricedBy = (software: FrameworkName, option: string) =>
  error('plan/unsupported', option, `is not in the cost model of ${software}`, 'leave it out, or plan for lockstep')

/** One microbatch of one sequence on one device: what every other plan is written as a change of. */
export const plainSplit: Split = {
  ...{ ...oneRank, sequenceParallel: false, zero: 0 },
  ...{ schedule: '1f1b', chunks: 1, microbatches: 1, microbatch: 1, recompute: 'none' },
}

/** The `plan:` of a job from a device split, with the other settings of its model. */
export const planOf = ({ precision, said }: Pick<Request, 'precision' | 'said'>, split: Split): PlanInput => ({
  ...planInput(split, precision),
  ...said?.plan,
  ...(said?.rankOrder && split.ep === 1 && { rankOrder: said.rankOrder }),
})

/** All that the price of a plan depends on. */
export const setupOf = ({ shape, cluster, precision, software, book, said }: Request, split: Split): Setup => ({
  shape,
  split,
  cluster,
  precision: split.fp8 ? 'fp8' : precision,
  software,
  book,
  ...(said && software.own && updatedBy(said)),
})

const updatedBy = ({ training: { optimizer, ema, lossScale, lora } }: Said) => ({
  ...(optimizer && { optimizer: optimizerFor(optimizer, lora ? 'adapter' : 'matrix') }),
  ...{ averages: ema !== undefined, scaled: lossScale !== undefined },
})

type TrainedModel = Pick<Request, 'model' | 'shape' | 'globalBatch' | 'precision' | 'said'>

/** The job for a model and a device split, ready to be written to a file. */
export const jobOf = (of: TrainedModel, split: Split): Job =>
  Job.parse({ model: of.model, training: trainingInput(of), plan: planOf(of, split) })

/** What a job must say of its training: f16 needs a scale. */
export const trainingInput = ({ shape, globalBatch, precision, said }: Omit<TrainedModel, 'model'>) => ({
  ...{ seq: shape.seq, globalBatch },
  ...(precisionFacts[precision].plan === 'f16' && { lossScale: { kind: 'torch' as const } }),
  ...said?.training,
})

/** The request for the model, batch and constraints of a job. */
export function requestOfJob(
  { model, training, plan }: Job,
  cluster: Cluster,
  software?: FrameworkName,
  asked: Pick<PlanQuery, 'constraints' | 'allow'> = {},
): Request {
  const request = requestOf({
    ...asked,
    ...{ model, seq: training.seq, globalBatch: training.globalBatch, cluster, precision: precisionOf(plan) },
    ...(software && { software }),
    // Its program has the vocabulary it says.
    padVocab: false,
  })
  if (!request.software.own) return request
  const { precision, gradients, rounding, fp8 } = plan
  const { optimizer, ema, lossScale, lora } = training
  const said = {
    plan: { precision, rounding, ...(gradients && { gradients }), ...(fp8 && { fp8 }) },
    training: { optimizer, ema, lossScale, lora },
    ...(plan.rankOrder !== defaultOrder && { rankOrder: plan.rankOrder }),
  }
  const shape = shapeOf(model, training.seq, adaptersOf({ model, training }))!
  return { ...request, shape, software: ownSoftwareOf(plan), said }
}
