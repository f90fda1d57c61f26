/** All plans for the job of a link, while it is searched and when it is done: a sample as points, the best and the front as plans. */
import {
  type Answer,
  capacityOf,
  clusterOf,
  findingPlans,
  type Impossible,
  PlanSample,
  type Priced,
  ProblemsError,
  priceOf,
  type RankedPlan,
  type Request,
  requestOf,
  requestOfJob,
  splitOf,
  whyImpossible,
} from 'lockstep'
import type { Context } from '../modules.js'
import { build } from './exact.js'
import { type Asked, type Changes, type Link, linkOfJob, planWithSplit, readLink } from './link.js'
import { type InBoth, inBoth } from './said.js'
import { showWord } from './words.js'

export interface SearchInput {
  readonly link: Link
  /** Constraints as people write them, with commas between: `tp<=8, zero>=1`. */
  readonly where: string
}

export interface FoundPlan {
  readonly word: string
  readonly link: Changes
  readonly step: number
  readonly bytes: number
  /** Of its program; else of its price. */
  readonly exact: boolean
  readonly onFront: boolean
}

export interface SearchAnswer {
  /** Four numbers for every plan of the sample: seconds, bytes, ZeRO, pp. */
  readonly points: Float64Array<ArrayBuffer>
  /** Plans whose price was found. */
  readonly seen: number
  /** 0 to 1. */
  readonly done: number
  readonly capacity: number
  readonly own: { readonly step: number; readonly bytes: number; readonly zero: number; readonly pp: number }
  readonly plans: readonly FoundPlan[]
  readonly impossible?: { readonly why: InBoth; readonly instead: readonly Instead[] }
}

export interface Instead {
  readonly change: InBoth
  readonly step: number
  readonly link: Changes
}

const mostPoints = 1200
/** Milliseconds between reports. */
const pause = 120

export async function search({ link, where }: SearchInput, { progress }: Context): Promise<SearchAnswer> {
  const asked = await readLink(link)
  const request = requestWith(asked, where)
  const own = priceOf(request, splitOf(asked.job, '1f1b'))
  const sample = new PlanSample(mostPoints)
  const { step } = own.estimate
  const about = { step, bytes: own.bytes, zero: own.split.zero, pp: own.split.pp }
  const now = (done: number, plans: readonly FoundPlan[] = []): SearchAnswer => ({
    ...{ points: pointsOf(sample.plans), seen: sample.seen, done, capacity: capacityOf(request), own: about, plans },
  })
  const found = answered(request, sample, done => progress(now(done)))
  if (found && found.listed.length > 0) {
    // Those listed were compiled: so is what they are compared with.
    const { forecast } = build(asked)
    const exact = { ...about, step: forecast.step, bytes: forecast.memory.arena }
    return { ...now(1, await plansOf(asked, request, found)), own: exact }
  }
  return { ...now(1), impossible: await insteadOf(asked, request) }
}

function requestWith({ job, cluster }: Asked, where: string): Request {
  const constraints = where.split(',').flatMap(text => text.trim() || [])
  // What a job keeps elsewhere its other plans may, too.
  const request = requestOfJob(job, cluster, undefined, job.plan.offload ? { allow: ['offload'] } : {})
  const { model, training } = job
  const said = requestOf({ model, seq: training.seq, globalBatch: training.globalBatch, cluster, constraints })
  return { ...request, constraints: said.constraints }
}

/** Undefined where plans fit by price and none once compiled. */
function answered(request: Request, sample: PlanSample, tell: (done: number) => void): Answer | undefined {
  try {
    const work = findingPlans(request, { top: 12, sample })
    let said = 0
    for (let next = work.next(); ; next = work.next()) {
      if (next.done) return next.value
      if (performance.now() - said < pause) continue
      said = performance.now()
      tell(next.value)
    }
  } catch (error) {
    if (error instanceof ProblemsError) return
    throw error
  }
}

function pointsOf(plans: readonly Priced[]): Float64Array<ArrayBuffer> {
  const points = new Float64Array(4 * plans.length)
  for (const [n, { estimate, bytes, split }] of plans.entries())
    points.set([estimate.step, bytes, split.zero, split.pp], 4 * n)
  return points
}

async function plansOf(asked: Asked, request: Request, { listed, front }: Answer): Promise<FoundPlan[]> {
  const onFront = new Set(front.map(({ plan }) => plan))
  const all = [...listed, ...front.filter(({ plan }) => !listed.some(one => one.plan === plan))]
  return Promise.all(all.map(one => planFound(asked, request, one, onFront.has(one.plan))))
}

async function planFound(asked: Asked, request: Request, one: RankedPlan, onFront: boolean): Promise<FoundPlan> {
  const plan = planWithSplit(asked.job, request, one.plan)
  const { step, arena } = one.simulated ?? { step: one.plan.estimate.step, arena: one.plan.bytes }
  return {
    ...{ word: showWord(plan).word, step, bytes: arena, exact: one.simulated !== undefined, onFront },
    link: await linkOfJob({ ...asked.job, plan }, asked.model),
  }
}

async function insteadOf(asked: Asked, request: Request): Promise<NonNullable<SearchAnswer['impossible']>> {
  const { device } = request.cluster
  const clusterAt = (devices: number) => {
    try {
      return clusterOf(device.name, devices)
    } catch {
      return
    }
  }
  const { why, instead } = whyImpossible(request, clusterAt)
  return { why: inBoth(why), instead: await Promise.all(instead.map(one => insteadLink(asked, request, one))) }
}

async function insteadLink(asked: Asked, request: Request, one: Impossible['instead'][number]): Promise<Instead> {
  const { change, best, said } = one
  const training = {
    ...asked.job.training,
    ...said?.training,
    ...(change.code === 'instead/batch' && { globalBatch: change.values.batch }),
  }
  const job = { ...asked.job, training, plan: { ...planWithSplit(asked.job, request, best), ...said?.plan } }
  const more: Changes =
    change.code === 'instead/devices'
      ? { on: `${request.cluster.device.name}*${change.values.devices}` }
      : change.code === 'instead/memory'
        ? { mem: memoryFor(asked, change.values.bytes) }
        : one.kind === 'constraint'
          ? { where: undefined }
          : {}
  return { change: inBoth(change), step: best.estimate.step, link: { ...(await linkOfJob(job, asked.model)), ...more } }
}

/** Times the memory of the device that is enough, rounded up. */
const memoryFor = ({ cluster, whatIf }: Asked, more: number): string =>
  String(Math.ceil(100 * whatIf.memory * (1 + more / cluster.device.memory) * 1.02) / 100)
