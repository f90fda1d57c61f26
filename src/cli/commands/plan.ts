/** lockstep plan: the best ways to split a model over a cluster, and why they are. */
import { dirname, relative } from 'node:path'
import { stringify } from 'yaml'
import {
  either,
  error,
  isOwnPrecision,
  type Precision,
  ProblemsError,
  planPrecisions,
  precisionFacts,
  save,
  type Work,
} from '../../base/index.js'
import { planInput } from '../../estimate/index.js'
import { exposedOf, headroomOf } from '../../metrics/index.js'
import {
  asSimulated,
  capacityOf,
  type FasterOrder,
  findingPlans,
  findingReasons,
  findingWhatWorks,
  type RankedPlan,
  type Request,
  ratesOfPlan,
  showSentence,
  trainingInput,
} from '../../search/index.js'
import { clusterIfAny } from '../files/load-cluster.js'
import { requireOutputs } from '../files/outputs.js'
import { planningOfJob, provenance, withOrder } from '../files/planned-job.js'
import type { Io } from '../io.js'
import { impossibleText, planText, type Told } from '../text/plan-text.js'
import { type Planning, type PlanningOptions, planningOf } from '../text/planning.js'
import { withProgress } from '../text/progress.js'
import { fitJson, impossibleJson, readingJson, verdictJson } from '../text/sentences.js'

export interface PlanOptions extends PlanningOptions {
  readonly devices?: number
  readonly top: number
  readonly why: boolean
  /** False: prices alone. */
  readonly simulate: number | false
  /** The best plans by price, and nothing else. */
  readonly quick?: boolean
  readonly out?: string
  readonly json?: boolean
}

export async function planCommand(path: string | undefined, options: PlanOptions, io: Io): Promise<number> {
  const ofJob = path === undefined ? undefined : await planningOfJob(path, options, io)
  const planning = ofJob?.planning ?? planningOf(options, options.devices, io)
  requireOutputs(io, options.out)
  if (options.out !== undefined) requireWritable(planning.request.precision)
  const told = await answerTo(planning.request, options, io)
  const [first = told.possible[0]] = told.listed
  if (!first) return refuse(planning, options, io)
  const { json, out } = options
  io.out(json ? `${JSON.stringify(asJson(planning, told), null, 2)}\n` : planText(planning, told, io))
  if (out !== undefined) {
    const { order } = told
    const text = ofJob?.textWith(first, out, order) ?? jobText(planning, first, out, order)
    const seconds = order?.step ?? first.simulated?.step ?? first.plan.estimate.step
    const condition = first.fit.condition && showSentence(first.fit.condition)
    save(out, `${provenance(planning.request, { seconds, condition, by: 'plan' })}\n${text}`, io)
    if (!json) io.out(`\nwritten: ${out} (lockstep check, compile, simulate and explain read it)\n`)
  }
  return 0
}

/** A job sets the dtype of what is stored; matmuls in another precision have no field. */
function requireWritable(precision: Precision): void {
  if (isOwnPrecision(precision)) return
  const message = `a job file has no field for ${precision} matmuls: its plan.precision is ${either(planPrecisions)}`
  const suggestion = `leave out --out, or plan with --precision ${precisionFacts[precision].plan} (lockstep simulate has --multiply ${precision})`
  throw new ProblemsError([error('plan/unwritable', '--out', message, suggestion)])
}

/** The phases with their lengths, in seconds, about. */
const phases = { 'searching and simulating': 15, 'finding out what would change it': 3 }
type Phase = keyof typeof phases

function answerTo(request: Request, { top, why, out, quick, ...options }: PlanOptions, io: Io): Promise<Told> {
  const wanted = quick ? false : options.simulate
  // What is written is compiled, whatever was asked.
  const simulate = wanted === false && out !== undefined ? 0 : wanted
  return withProgress(io, async progress => {
    progress.expect(phases)
    const run = <T>(phase: Phase, work: Work<T>) => progress.run(phase, work)
    const answer = await run('searching and simulating', findingPlans(request, { top, simulate, front: !quick }))
    if (quick || !why || answer.listed.length === 0) return answer
    return { ...answer, why: await run('finding out what would change it', findingReasons(answer)) }
  })
}

const alternatives = 'searching for what would work'

async function refuse(planning: Planning, { json }: PlanOptions, io: Io): Promise<number> {
  const clusterAt = (devices: number) => clusterIfAny(planning.clusterAt, devices)
  const impossible = await withProgress(io, progress => {
    progress.expect({ [alternatives]: 1 })
    return progress.run(alternatives, findingWhatWorks(planning.request, clusterAt))
  })
  if (json) io.out(`${JSON.stringify({ ok: false, ...impossibleJson(impossible) }, null, 2)}\n`)
  else io.err(impossibleText(planning, impossible, io))
  return 1
}

/** The numbers of a plan: of its simulated program if there is one, of its estimate if not. */
function planJson(request: Request, { plan: estimated, fit, simulated }: RankedPlan) {
  const plan = simulated ? asSimulated(estimated, simulated) : estimated
  const { estimate, bytes, split } = plan
  return {
    plan: planInput(split, request.precision),
    basis: simulated ? 'simulated' : 'estimated',
    ...{ ...estimate, bytes, fit: fitJson(fit) },
    ...ratesOfPlan(request, plan),
    ...(simulated && { bubble: simulated.bubble }),
    exposed: exposedOf(estimate.parts, estimate.step),
    headroom: headroomOf(bytes, capacityOf(request)),
    ...(simulated && { estimated: { step: estimated.estimate.step, bytes: estimated.bytes } }),
  }
}

function asJson({ request, notes }: Planning, answer: Told) {
  const { found, listed, possible, front, outlined, compiled, failed, tooLong, why } = answer
  const { precision } = request
  return {
    ok: true,
    notes,
    request: {
      ...{ shape: request.shape, globalBatch: request.globalBatch, precision },
      ...{ cluster: request.cluster.name, devices: request.cluster.devices, software: request.software.name },
      constraints: request.constraints.map(c => c.text),
      ...(request.said?.training.lora && { lora: request.said.training.lora }),
    },
    counts: { ...found.counts, simulated: outlined.length, compiled: compiled.length, failed: failed.length, tooLong },
    failed: failed.map(({ plan, why }) => ({ plan: planInput(plan.split, precision), why })),
    capacity: capacityOf(request),
    /** Bytes that surely fit. */
    surely: found.capacity,
    best: listed.map(one => planJson(request, one)),
    possible: possible.map(one => planJson(request, one)),
    front: front.map(one => planJson(request, one)),
    ...(answer.order && { order: answer.order }),
    ...(why && {
      why: {
        reading: readingJson(why.reading),
        neighbours: why.neighbours.map(({ move, verdict, plan }) => ({
          ...{ move: showSentence(move.change), verdict: verdictJson(verdict) },
          ...(plan && { plan: planInput(plan.split, precision), step: plan.estimate.step, bytes: plan.bytes }),
        })),
        sensitivity: why.sensitivity.map(({ change, best, ...one }) => ({
          ...{ change: showSentence(change), ...one },
          ...(best && { plan: planInput(best.split, precision), step: best.estimate.step }),
        })),
      },
    }),
  }
}

const unset = '# Optimizer, clipping, steps and data are defaults: set them before you train.\n'

/** A job file: what was asked, and the plan. Paths in it are relative to it. */
export function jobText({ request, model }: Planning, { plan }: RankedPlan, path: string, order?: FasterOrder): string {
  const named = typeof model === 'string' && model.endsWith('.json') ? relative(dirname(path), model) : model
  const job = {
    model: named,
    training: trainingInput(request),
    plan: { ...planInput(plan.split, request.precision), ...withOrder(order) },
  }
  return `${unset}${stringify(job)}`
}
