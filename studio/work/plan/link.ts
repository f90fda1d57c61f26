/**
 * What a link of the plan's page says, read: the job, where it is to run, and what if. Whatever stands in a link, this gives a job or
 * the problems that keep it from being one; the core's own schema is what checks it.
 */
import {
  type Cluster,
  check,
  clusterOf,
  Job,
  memoryTimes,
  networkTimes,
  Plan as PlanSchema,
  type Priced,
  type Problem,
  ProblemsError,
  planOf,
  presets,
  type Request,
  Training,
  worldOfPlan,
} from 'lockstep'
import { firstPlan } from './first.js'
import { pack, unpack } from './pack.js'
import { refused } from './phrases.js'
import { readWord, showWord } from './words.js'

/** The part of a link that the plan depends on. */
export interface Link {
  readonly model?: string | undefined
  readonly on?: string | undefined
  readonly seq?: string | undefined
  readonly batch?: string | undefined
  readonly plan?: string | undefined
  /** Own models and whatever else has no short form: a job, packed. */
  readonly j?: string | undefined
  readonly net?: string | undefined
  readonly mem?: string | undefined
  readonly slow?: string | undefined
  readonly jitter?: string | undefined
  readonly mtbf?: string | undefined
  readonly tokens?: string | undefined
}

export const defaults = { model: 'llama3-8b', on: 'h100*64', batch: '128', tokens: '1e12' } as const

/** Where a link says nothing at all: a pipeline, of which there is something to see, and something to make better. */
const opening = 'tp2.sp.pp4.dp8.z1.m16.1f1b.bf16'

/** What is different from the usual. */
export interface WhatIf {
  readonly network: number
  readonly memory: number
  readonly slow: ReadonlyMap<number, number>
  readonly jitter: number
  /** Hours between failures of one device. */
  readonly mtbf?: number
  readonly tokens: number
}

export interface Asked {
  readonly job: Job
  readonly cluster: Cluster
  readonly whatIf: WhatIf
  readonly warnings: readonly Problem[]
  /** The preset, where the model is one. */
  readonly model?: string
}

type Reading = { readonly asked: Asked } | { readonly problems: readonly Problem[] }

/** Throws every problem of the link at once. */
export async function readLink(link: Link): Promise<Asked> {
  const reading = await reads(link)
  if ('problems' in reading) throw new ProblemsError(reading.problems)
  return reading.asked
}

let last: { readonly key: string; readonly reading: Promise<Reading> } | undefined

/** Several questions about one link read it once. */
function reads(link: Link): Promise<Reading> {
  const key = JSON.stringify(Object.entries(link).sort())
  if (last?.key !== key) last = { key, reading: reading(link) }
  return last.reading
}

async function reading(link: Link): Promise<Reading> {
  const own = await unpack(link.j)
  const plan = link.plan ?? (Object.values(link).every(one => one === undefined) ? opening : undefined)
  const word = readWord(plan ?? '')
  const on = readCluster(link.on ?? defaults.on, link)
  const [whatIf, wrong] = readWhatIf(link)
  const unread = [...own.problems, ...(plan === undefined ? [] : word.problems), ...on.problems, ...wrong]
  const input = jobInput(link, own.value, word.fields)
  const first = plan === undefined && on.cluster && !own.value.plan ? firstPlan(input, on.cluster) : undefined
  const { job, problems } = await parsed(first ? { ...input, plan: first } : input)
  const all = [...unread, ...problems.map(withoutPlace), ...(job && on.cluster ? worldProblems(job, on.cluster) : [])]
  if (!job || !on.cluster || all.some(({ severity }) => severity === 'error')) return { problems: all }
  const model = isPreset(input.model) ? input.model : undefined
  return { asked: { job, cluster: on.cluster, whatIf, warnings: all, ...(model && { model }) } }
}

/** By the schema; where that refuses it, once more by what can say why, and knows other ways to write a model. */
async function parsed(input: Fields): Promise<{ readonly job?: Job; readonly problems: readonly Problem[] }> {
  const model = isPreset(input.model) ? presets[input.model] : input.model
  const { data } = Job.safeParse({ ...input, model })
  if (data) return { job: data, problems: check(data) }
  const { parseJob } = await import('./parse.js')
  return parseJob(JSON.stringify(input))
}

const isPreset = (model: unknown): model is keyof typeof presets =>
  typeof model === 'string' && Object.hasOwn(presets, model)

/** A link has no lines. */
const withoutPlace = ({ line: _, column: __, ...rest }: Problem): Problem => rest

type Fields = Readonly<Record<string, unknown>>
const mapping = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {} // just looked

function jobInput(link: Link, own: Fields, plan: Fields) {
  const model = link.model ?? own.model ?? defaults.model
  const training = mapping(own.training)
  return {
    ...own,
    model,
    training: {
      ...training,
      seq: numberOr(link.seq) ?? training.seq ?? usualSeq(model),
      globalBatch: numberOr(link.batch) ?? training.globalBatch ?? Number(defaults.batch),
    },
    plan: { ...mapping(own.plan), ...plan },
  }
}

/** The schema takes 8192 and `8k`. */
const numberOr = (text: string | undefined): number | string | undefined =>
  text === undefined ? undefined : /^\d{1,15}$/.test(text) ? Number(text) : text

/** A model with learned positions has no more of them. */
function usualSeq(model: unknown): number {
  const config = isPreset(model) ? presets[model] : mapping(model)
  const { positions } = config as { readonly positions?: number } // models without them have none
  return Math.min(8192, typeof positions === 'number' && positions > 0 ? positions : 8192)
}

function readCluster(on: string, link: Link): { readonly cluster?: Cluster; readonly problems: readonly Problem[] } {
  const [, device, count] = on.match(/^([\w.-]{1,40})\*(\d{1,6})$/) ?? []
  if (!device || !count)
    return { problems: [refused('on', 'schema/value/cluster', { text: on.slice(0, 60), example: 'h100*64' })] }
  try {
    const built = clusterOf(device, Number(count))
    const times = (text: string | undefined) => between(text, 1e-3, 1e3) ?? 1
    return { cluster: memoryTimes(networkTimes(built, times(link.net)), times(link.mem)), problems: [] }
  } catch (error) {
    if (error instanceof ProblemsError) return { problems: error.problems }
    throw error
  }
}

function between(text: string | undefined, least: number, most: number): number | undefined {
  const value = text === undefined || !/^\d*\.?\d+(e\+?\d+)?$/i.test(text) ? Number.NaN : Number(text)
  return value >= least && value <= most ? value : undefined
}

const limits = {
  net: [1e-3, 1e3],
  mem: [1e-3, 1e3],
  jitter: [0, 1],
  mtbf: [1, 1e9],
  tokens: [1, 1e18],
} as const

function readWhatIf(link: Link): readonly [WhatIf, readonly Problem[]] {
  const wrong: Problem[] = []
  const read = (key: keyof typeof limits): number | undefined => {
    const text = link[key]
    const [least, most] = limits[key]
    const value = between(text, least, most)
    if (text !== undefined && value === undefined)
      wrong.push(refused(key, 'schema/value/between', { text: text.slice(0, 40), least, most }))
    return value
  }
  const { slow, problems } = readSlow(link.slow)
  const mtbf = read('mtbf')
  const whatIf = {
    ...{ network: read('net') ?? 1, memory: read('mem') ?? 1, jitter: read('jitter') ?? 0, slow },
    tokens: read('tokens') ?? Number(defaults.tokens),
    ...(mtbf !== undefined && { mtbf }),
  }
  return [whatIf, [...wrong, ...problems]]
}

/** `17:1.3,5:2`: ranks, and how many times as long they take. */
function readSlow(text: string | undefined) {
  const slow = new Map<number, number>()
  const problems: Problem[] = []
  for (const part of text?.split(',').slice(0, 16) ?? []) {
    const [, rank, factor] = part.match(/^(\d{1,7}):([\d.]{1,12})$/) ?? []
    const by = between(factor, 1, 1000)
    if (rank === undefined || by === undefined)
      problems.push(refused('slow', 'schema/value/slow', { text: part.slice(0, 40), example: '17:1.3' }))
    else slow.set(Number(rank), by)
  }
  return { slow, problems }
}

function worldProblems({ plan }: Job, { devices }: Cluster): Problem[] {
  const world = worldOfPlan(plan)
  if (world === devices) return []
  const axes = (['tp', 'cp', 'pp', 'dp'] as const).filter(axis => plan[axis] > 1).map(axis => `${axis} ${plan[axis]}`)
  return [refused('plan', 'cluster/devices/world', { product: axes.join(' x ') || 'dp 1', ranks: world, devices })]
}

/** What of a link changes when it is to say this job: undefined is left out. */
export type Changes = Readonly<Record<string, string | undefined>>

export const asPlan = (fields: Fields): Job['plan'] => PlanSchema.parse(fields)

/** The link of another plan for the same model and training. */
export async function linkOfPlan(asked: Asked, plan: Job['plan']): Promise<Changes> {
  return linkOfJob({ ...asked.job, plan }, asked.model)
}

/** What a search does not decide stays as it is. */
export function planWithSplit({ plan }: Job, request: Request, { split }: Pick<Priced, 'split'>): Job['plan'] {
  const { overlap, rankOrder, deviceMemory, zigzag } = plan
  return asPlan({
    ...{ overlap, rankOrder },
    ...(deviceMemory !== undefined && { deviceMemory }),
    ...(zigzag !== undefined && { zigzag }),
    ...planOf(request, split),
  })
}

/** What is said of the training beside the defaults. */
function trainingSaid({
  training,
}: Pick<Job, 'training'>): Job['training'] | Pick<Job['training'], 'seq' | 'globalBatch'> {
  const { seq, globalBatch } = training
  const usual: Fields = Training.parse({ seq, globalBatch })
  const differs = ([field, value]: readonly [string, unknown]) => JSON.stringify(value) !== JSON.stringify(usual[field])
  return { ...Object.fromEntries(Object.entries(training).filter(differs)), seq, globalBatch }
}

/** A job as a file says it: without what are defaults. */
export function jobSaid({ name, data, ...job }: Job, model?: string) {
  const { word, rest } = showWord(job.plan)
  return {
    ...(name !== undefined && { name }),
    model: model ?? job.model,
    training: trainingSaid(job),
    ...(data && { data }),
    plan: { ...readWord(word).fields, ...rest },
  }
}

export async function linkOfJob(job: Job, model?: string): Promise<Changes> {
  const { word, rest } = showWord(job.plan)
  const { training, plan: _, ...said } = jobSaid(job, model)
  const { seq, globalBatch, ...more } = training
  const own = {
    ...said,
    ...(Object.keys(more).length > 0 && { training: more }),
    ...(Object.keys(rest).length > 0 && { plan: rest }),
  }
  const { model: named, ...others } = own
  const packed = model === undefined ? { model: named, ...others } : others
  return {
    ...{ model, seq: String(seq), batch: String(globalBatch), plan: word },
    j: Object.keys(packed).length > 0 ? await pack(packed) : undefined,
  }
}
