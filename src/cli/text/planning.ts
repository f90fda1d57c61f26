/** What `plan` and `scale` are asked, from the command line to a request. */
import { parse } from 'yaml'
import { either, error, type Problem, ProblemsError } from '../../base/index.js'
import type { Cluster, Precision } from '../../cluster/index.js'
import type { FrameworkName } from '../../estimate/index.js'
import type { Adapters, ModelConfig } from '../../model/index.js'
import { adaptersOf, check, type Job, parseJob } from '../../plan/index.js'
import { abilitiesOf, type ExtraName, parseConstraints, type Request, requestOf } from '../../search/index.js'
import { loadCluster } from '../files/load-cluster.js'
import type { Io } from '../io.js'

export interface PlanningOptions {
  readonly model: string
  readonly cluster: string
  readonly seq: number
  readonly globalBatch: number
  readonly precision: Precision
  readonly software: FrameworkName
  readonly constraint: readonly string[]
  readonly allow?: readonly ExtraName[]
  /** True: as a job has it that says nothing more of it. */
  readonly lora?: string | true
}

export interface Planning {
  readonly request: Request
  /** The model as a job file names it, or the path of a job. */
  readonly model: ModelReference
  /** The constraints as the user wrote them; the request has those of the software too. */
  readonly constraints: readonly string[]
  /** What was done to the request, to be said. */
  readonly notes: readonly string[]
  readonly clusterAt: (devices: number) => Cluster
}

export type ModelReference = string | { readonly preset: string; readonly vocab: number } | ModelConfig

/** Throws everything that is wrong with what was asked. */
export function planningOf(options: PlanningOptions, devices: number | undefined, io: Io): Planning {
  const { seq, globalBatch, precision, software } = options
  const training = { seq, globalBatch, ...(options.lora !== undefined && { lora: loraOf(options.lora) }) }
  const parsed = parseJob(JSON.stringify({ model: options.model, training }), { readModel: path => io.read(path) })
  const { problems } = parseConstraints(options.constraint)
  const clusterAt = (count: number | undefined) => loadCluster(options.cluster, io, count)
  const { cluster, problems: unknown } = tryCluster(() => clusterAt(devices))
  const told = [...parsed.problems, ...(parsed.job ? loraProblems(parsed.job) : [])]
  const wrong = told.filter(p => p.severity === 'error').map(p => ({ ...p, ...nowhere }))
  const all = [...wrong, ...unknown, ...problems]
  if (!parsed.job || !cluster || all.length > 0) throw new ProblemsError(all)
  const {
    model,
    training: { lora },
  } = parsed.job
  const asked = {
    model,
    seq,
    globalBatch,
    cluster,
    precision,
    software,
    ...(options.allow && { allow: options.allow }),
    ...(lora && { lora }),
  }
  const request = requestOf({ ...asked, constraints: options.constraint })
  const { notes, reference } = padded(model, request.model, options.model)
  return planningFor({ request, model: reference, clusterAt }, options, [
    ...notes,
    ...(lora ? [adaptersText(adaptersOf({ model, training: { lora } })!)] : []),
  ])
}

type Asked = Pick<PlanningOptions, 'constraint' | 'software'>

/** A request with what is printed about it; throws where a constraint cannot be read. */
export function planningFor(
  requested: Pick<Planning, 'request' | 'model' | 'clusterAt'>,
  { constraint, software }: Asked,
  notes: readonly string[] = [],
): Planning {
  const able = abilitiesOf(software)
  return {
    ...requested,
    constraints: parseConstraints(constraint).constraints.map(c => c.text),
    notes: [...notes, ...(able.length > 0 ? [`${software} has ${able.map(c => c.text).join(', ')}`] : [])],
  }
}

/** In the words of a job. */
function loraOf(settings: string | true): unknown {
  try {
    return settings === true ? {} : parse(settings)
  } catch {
    const example = "write it as a job does: '{ rank: 16, alpha: 32, targets: [q, v] }'"
    throw new ProblemsError([error('training/lora', '--lora', `\`${settings}\` cannot be read`, example)])
  }
}

const adaptersText = ({ rank, targets }: Adapters): string =>
  `LoRA adapters of rank ${rank} for ${either(targets, 'and')} are trained, the base model is frozen`

/** What keeps the model from having these adapters, whatever the plan. */
const loraProblems = (job: Job): Problem[] => check(job).filter(({ code }) => code === 'training/lora')

function tryCluster(load: () => Cluster): { readonly cluster?: Cluster; readonly problems: readonly Problem[] } {
  try {
    return { cluster: load(), problems: [] }
  } catch (e) {
    if (e instanceof ProblemsError && e.file === undefined) return { problems: e.problems }
    throw e
  }
}

/** The command line has no lines. */
const nowhere = { line: undefined as never, column: undefined as never }

/** What was done to the vocabulary, and the model as a job file has to name it. */
function padded(
  from: ModelConfig,
  to: ModelConfig,
  given: string,
): { readonly notes: readonly string[]; readonly reference: ModelReference } {
  if (from.family === 'mlp' || to.family === 'mlp' || from.vocab === to.vocab) return { notes: [], reference: given }
  return {
    notes: [`vocab ${from.vocab} is padded to ${to.vocab}, a multiple of 128, so that tp can split it`],
    reference: given.endsWith('.json') ? to : { preset: given, vocab: to.vocab },
  }
}
