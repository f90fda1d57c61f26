/** Jobs drawn over every feature, from a seed: a family, then features one at a time in random order. */
import { isDeepStrictEqual } from 'node:util'
import { choices } from '../../src/base/index.js'
import { isSound, Job, type JobInput, worldOfPlan } from '../../src/plan/index.js'
import { families, features, type Patch, plainOptimizer } from './features.js'

type Random = ReturnType<typeof choices>

export interface Drawn {
  readonly seed: number
  /** As a job file has it: only what differs from the defaults. */
  readonly input: JobInput
  /** Whether it was drawn without asking `check`, which may refuse it. */
  readonly unchecked: boolean
}

/** At most: the interpreter runs all ranks in one thread, and PyTorch a process per rank. */
const ranks = [2, 4, 4, 4, 8] as const
/** How often a group of features is looked at for one that agrees with those drawn before. */
const tries = 3
/** One draw in so many does not ask `check`. */
const uncheckedEvery = 8

const merged = (input: JobInput, { model, training, plan, data }: Patch): JobInput =>
  ({
    ...input,
    model: { ...(input.model as object), ...model },
    training: { ...input.training, ...training },
    ...((plan || input.plan) && { plan: { ...input.plan, ...plan } }),
    ...(data && { data }),
  }) as JobInput // a patch of another family is refused by the schema

/** Every pipeline stage needs a layer. Undefined: the schema refuses the job. */
function parsed(input: JobInput): { readonly input: JobInput; readonly job: Job } | undefined {
  const { success, data: job } = Job.safeParse(input)
  if (!success) return undefined
  const { pp, chunks, layers } = job.plan
  if (layers !== 'even' || job.model.layers >= pp * chunks) return { input, job }
  const deeper = merged(input, { model: { layers: pp * chunks } })
  return { input: deeper, job: Job.parse(deeper) }
}

function accepted(input: JobInput, mostRanks: number): JobInput | undefined {
  const found = parsed(input)
  return found && worldOfPlan(found.job.plan) <= mostRanks && !isRefused(found.job) ? found.input : undefined
}

function isRefused(job: Job): boolean {
  try {
    return !isSound(job)
  } catch {
    return false // the stage that checks it will report it
  }
}

const plain = (family: keyof typeof families): JobInput => ({
  model: families[family],
  training: { seq: 8, globalBatch: 8, steps: 3, evalBatches: 1, optimizer: plainOptimizer },
})

/** The job with a feature of each of some groups, as far as they agree; the last one drawn wins where two set a field. */
function built({ pick, chance, int }: Random, family: keyof typeof families): JobInput {
  const left = Object.keys(features)
  const mostRanks = pick(ranks)
  const share = pick([0.2, 0.4, 0.6]) // from jobs of few features to jobs of many
  let input = plain(family)
  while (left.length > 0) {
    const [group] = left.splice(int(left.length), 1)
    if (!chance(share)) continue
    for (let n = 0; n < tries; n++) {
      const found = accepted(merged(input, pick(Object.values(features[group]))), mostRanks)
      if (!found) continue
      input = found
      break
    }
  }
  return input
}

/** A few features of any kind that nobody has checked. */
function thrown({ pick, int }: Random, family: keyof typeof families): JobInput {
  let input = plain(family)
  for (let n = 2 + int(6); n > 0; n--) {
    const more = merged(input, pick(Object.values(features[pick(Object.keys(features))])))
    const found = parsed(more)
    if (found && worldOfPlan(found.job.plan) <= Math.max(...ranks)) input = found.input
  }
  return input
}

/** The job of a seed. */
export function draw(seed: number): Drawn {
  const random = choices(seed)
  const family = random.pick(['mlp', 'gpt', 'gpt', 'llama', 'llama', 'llama', 'llama', 'llama'] as const)
  const unchecked = seed % uncheckedEvery === 0
  return { seed, unchecked, input: (unchecked ? thrown : built)(random, family) }
}

/** Names of the features a job has, as `group value`. */
export function featuresIn(input: JobInput): string[] {
  const holds = (section: unknown, fields: object | undefined) =>
    Object.entries(fields ?? {}).every(([key, value]) =>
      isDeepStrictEqual((section as Readonly<Record<string, unknown>> | undefined)?.[key], value),
    )
  const has = ({ model, training, plan, data }: Patch) =>
    holds(input.model, model) && holds(input.training, training) && holds(input.plan, plan) && holds(input.data, data)
  return Object.entries(features).flatMap(([group, patches]) =>
    Object.entries(patches).flatMap(([name, patch]) => (has(patch) ? [`${group} ${name}`] : [])),
  )
}
