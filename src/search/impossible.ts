/**
 * When no plan works: why, and the nearest things that would. A request is loosened in one way at a time (a constraint
 * dropped, more devices, another batch, more memory), each as little as makes a plan possible; nothing is guessed,
 * every suggestion was searched and has a plan.
 */

import { asPart, divisors, finish, precisionFacts, type Work } from '../base/index.js'
import type { Cluster } from '../cluster/index.js'
import { ownSoftwareOf, shapeOf } from '../estimate/index.js'
import { adaptersOf, Job } from '../plan/index.js'
import { searchingAll } from './allowed.js'
import { type Constraint, keeps } from './constraint.js'
import { pipelinesOf } from './pipelines.js'
import type { Request, Said } from './request.js'
import { capacityOf, type Priced, priceOf } from './search.js'
import type { Sentence } from './sentences.js'
import { type Group, groupsOf, layerSplitsOf, savingsOf, searchedAxes, splitFrom } from './space.js'

/** Why no plan works, and the smallest changes that make one possible. */
export interface Impossible {
  readonly cause: Cause
  /** The obstacle, with numbers. */
  readonly why: Sentence
  /** The plan with the least memory, if there are plans at all. */
  readonly lightest?: Priced
  readonly capacity: number
  readonly instead: readonly Instead[]
}

/** No mesh: devices, batch, model and constraints leave no plan. No room: there are plans, and none fits. */
export type Cause = 'mesh' | 'memory'

export interface Instead {
  readonly kind: 'constraint' | 'devices' | 'batch' | 'memory' | 'offload' | 'precision' | 'lora'
  /** What to change: 'without tp=8', '--devices 8', '12 GiB more memory'. */
  readonly change: Sentence
  /** Settings of the job that change with it, beside what the plan says itself. */
  readonly said?: Said
  /** The best plan then. */
  readonly best: Priced
}

export type ClusterAt = (devices: number) => Cluster | undefined

/**
 * Why no plan of a request works, and the smallest changes (constraint, devices, batch, memory) that make one
 * possible.
 */
export const whyImpossible = (request: Request, clusterAt: ClusterAt): Impossible =>
  finish(findingWhatWorks(request, clusterAt))

export function* findingWhatWorks(request: Request, clusterAt: ClusterAt): Work<Impossible> {
  const lightest = lightestOf(request)
  yield 0.1
  const capacity = capacityOf(request)
  const found: readonly (Instead | undefined)[] = [
    ...(yield* asPart(0.1, 0.25, withoutConstraints(request))),
    ...(lightest ? yield* asPart(0.25, 0.4, lighterSettings(request)) : []),
    ...(yield* asPart(0.4, 0.8, otherDevices(request, clusterAt))),
    ...(yield* asPart(0.8, 1, otherBatches(request))),
    moreMemory(request, lightest),
  ]
  const instead = found.filter(one => one !== undefined)
  if (!lightest) return { cause: 'mesh', why: whyNoMesh(request), capacity, instead }
  const why: Sentence = { code: 'no-plan/memory', values: { bytes: lightest.bytes, capacity } }
  return { cause: 'memory', why, capacity, instead, lightest }
}

function* bestOf(request: Request): Work<Priced | undefined> {
  return (yield* searchingAll(request, { keep: 1, front: false })).best[0]
}

/** The lightest plan: each way to cut devices and batch with its smallest microbatch, under every saving there is. */
function lightestOf(request: Request): Priced | undefined {
  const smallest = new Map<string, Group>()
  for (const group of groupsOf(request)) {
    const key = `${group.tp} ${group.cp} ${group.ep} ${group.pp} ${group.sequenceParallel}`
    if (!smallest.has(key)) smallest.set(key, group)
  }
  let lightest: Priced | undefined
  for (const group of smallest.values())
    for (const pipeline of pipelinesOf(request, group.pp))
      for (const saving of savingsOf(group, request.constraints)) {
        const plan = priceOf(request, splitFrom(group, pipeline, saving))
        if (!lightest || plan.bytes < lightest.bytes) lightest = plan
      }
  return lightest
}

function* withoutConstraints(request: Request): Work<Instead[]> {
  const all = request.constraints
  const without = (dropped: readonly Constraint[]) => ({
    ...request,
    constraints: all.filter(c => !dropped.includes(c)),
  })
  const found: Instead[] = []
  for (const [i, constraint] of all.entries()) {
    const best = yield* asPart(i / all.length, (i + 1) / all.length, bestOf(without([constraint])))
    const change: Sentence = { code: 'instead/constraint', values: { constraint: constraint.text } }
    if (best) found.push({ kind: 'constraint', change, best })
  }
  if (found.length > 0 || all.length < 2) return found
  const best = yield* asPart(1, 1, bestOf(without(all)))
  return best ? [{ kind: 'constraint', change: { code: 'instead/no-constraints', values: {} }, best }] : []
}

/** Settings that need less of a device and are not searched unless they are allowed: our own program's alone are in the cost model. */
function* lighterSettings(request: Request): Work<Instead[]> {
  const found: Instead[] = []
  const all = request.software.own ? lighterRequests(request) : []
  for (const [i, { request: lighter, ...one }] of all.entries()) {
    const best = yield* asPart(i / all.length, (i + 1) / all.length, bestOf(lighter))
    if (best) found.push({ ...one, best })
  }
  return found
}

interface Lighter extends Pick<Instead, 'kind' | 'change' | 'said'> {
  readonly request: Request
}

function lighterRequests(request: Request): Lighter[] {
  const { allowed = [], said, model, shape } = request
  const lora = said?.training.lora ? undefined : usualLora(request)
  const adapters = lora && adaptersOf({ model, training: { lora } })
  const pure = {
    ...said,
    plan: { ...storedIn(request), precision: 'pure-bf16' as const },
    training: { ...said?.training },
  }
  const offload: Lighter = {
    ...{ kind: 'offload', change: { code: 'instead/offload', values: {} } },
    request: { ...request, allowed: [...allowed, 'offload'] },
  }
  const precision: Lighter = {
    ...{ kind: 'precision', change: { code: 'instead/precision', values: { precision: 'pure-bf16' } }, said: pure },
    request: { ...request, said: pure, software: ownSoftwareOf(pure.plan) },
  }
  const trained = lora && { ...said, training: { ...said?.training, lora } }
  return [
    ...(allowed.includes('offload') ? [] : [offload]),
    ...(storedIn(request).precision === 'bf16' ? [precision] : []),
    ...(trained && adapters
      ? [
          {
            ...{ kind: 'lora', change: { code: 'instead/lora', values: { rank: lora.rank } }, said: trained },
            request: { ...request, shape: shapeOf(model, shape.seq, adapters) ?? shape, said: trained },
          } satisfies Lighter,
        ]
      : []),
  ]
}

const storedIn = ({ precision, said }: Request): Pick<Job['plan'], 'precision' | 'rounding'> => ({
  precision: said?.plan?.precision ?? precisionFacts[precision].plan,
  rounding: said?.plan?.rounding ?? 'nearest',
})

/** Adapters as a job has them that says nothing more of them. */
const usualLora = ({ model, shape, globalBatch }: Request) =>
  Job.parse({ model, training: { seq: shape.seq, globalBatch, lora: {} } }).training.lora

const mostDevices = 2 ** 16

/** The least number above and the greatest below that work: multiples of what must divide them, then doubling. */
function* otherDevices(request: Request, clusterAt: ClusterAt): Work<Instead[]> {
  const { devices } = request.cluster
  const factor = devicesFactor(request)
  function* attempt(count: number): Work<Instead | undefined> {
    const cluster = count >= 1 && count <= mostDevices ? clusterAt(count) : undefined
    const best = cluster && (yield* bestOf({ ...request, cluster }))
    return best && { kind: 'devices', change: { code: 'instead/devices', values: { devices: count } }, best }
  }
  const below = devices > factor ? [...downwards(devices, factor)] : []
  return yield* firstOfEach([...upwards(devices, factor)], below, attempt)
}

/** What `tp=8` and its like say must divide the number of devices. */
const devicesFactor = ({ constraints }: Request): number =>
  constraints.reduce(
    (product, c) =>
      'value' in c && c.relation === '=' && (searchedAxes as readonly string[]).includes(c.field) // widened to ask
        ? product * Math.max(1, c.value)
        : product,
    1,
  )

function* upwards(devices: number, factor: number): Generator<number> {
  const next = (Math.floor(devices / factor) + 1) * factor
  for (let i = 0; i < 4; i++) yield next + i * factor
  for (let n = 2 ** Math.ceil(Math.log2(next + 1)); n <= mostDevices; n *= 2) if (n % factor === 0) yield n
}

function* downwards(devices: number, factor: number): Generator<number> {
  const next = Math.ceil(devices / factor - 1) * factor
  for (let i = 0; i < 4; i++) yield next - i * factor
  for (let n = 2 ** Math.floor(Math.log2(Math.max(1, next))); n >= factor; n /= 2) if (n % factor === 0) yield n
}

type Attempt = (n: number) => Work<Instead | undefined>

/** The first number above and the first below that works. */
function* firstOfEach(above: readonly number[], below: readonly number[], attempt: Attempt): Work<Instead[]> {
  const up = yield* asPart(0, 0.5, firstOf(above, attempt))
  const down = yield* asPart(0.5, 1, firstOf(below, attempt))
  return [up, down].filter(one => one !== undefined)
}

function* firstOf(candidates: readonly number[], attempt: Attempt): Work<Instead | undefined> {
  for (const [i, n] of candidates.entries()) {
    const found = yield* asPart(i / candidates.length, (i + 1) / candidates.length, attempt(n))
    if (found !== undefined) return found
  }
  return undefined
}

/** The nearest batches above and below that some plan can share out: a batch is hardly ever what one insists on. */
function* otherBatches(request: Request): Work<Instead[]> {
  const { globalBatch, cluster } = request
  function* attempt(batch: number): Work<Instead | undefined> {
    const best = yield* bestOf({ ...request, globalBatch: batch })
    return best && { kind: 'batch', change: { code: 'instead/batch', values: { batch } }, best }
  }
  const powers = Array.from({ length: 17 }, (_, i) => cluster.devices / 2 ** i).filter(Number.isInteger)
  const near = (step: number, up: boolean) =>
    up ? (Math.floor(globalBatch / step) + 1) * step : Math.ceil(globalBatch / step - 1) * step
  const above = [...new Set(powers.map(step => near(step, true)))].sort((a, b) => a - b)
  const below = [...new Set(powers.map(step => near(step, false)))].filter(n => n > 0).sort((a, b) => b - a)
  return yield* firstOfEach(above, below, attempt)
}

/** Memory that would be enough for the lightest plan, where the device is too small and not a constraint. */
function moreMemory(request: Request, lightest: Priced | undefined): Instead | undefined {
  const missing = lightest ? lightest.bytes - capacityOf({ ...request, constraints: [] }) : 0
  if (!lightest || missing <= 0) return undefined
  return { kind: 'memory', change: { code: 'instead/memory', values: { bytes: missing } }, best: lightest }
}

/** Which of the numbers do not go together: the first that leaves nothing. */
function whyNoMesh(request: Request): Sentence {
  const { cluster, globalBatch: batch, constraints, shape } = request
  const { devices } = cluster
  const told = (...fields: readonly string[]) =>
    constraints.filter(({ field }) => fields.includes(field)).map(({ text }) => text)
  const layers = layerSplitsOf(request)
  const tps = [...new Set(layers.map(({ tp }) => tp))]
  if (tps.length === 0) {
    const possible = [...new Set(layerSplitsOf({ ...request, constraints: [] }).map(({ tp }) => tp))]
    return { code: 'no-plan/tp', values: { devices, keeps: told('tp', 'cp', 'sequenceParallel'), possible } }
  }
  const meshes = layers.flatMap(({ tp, cp }) =>
    divisors(devices / (tp * cp)).map(pp => ({ tp, cp, pp, dp: devices / (tp * cp * pp) })),
  )
  const stages = shape.layers + 2
  const kept = meshes.filter(mesh => mesh.pp <= stages && keeps(mesh, constraints))
  if (kept.length === 0)
    return { code: 'no-plan/stages', values: { devices, stages, keeps: told('tp', 'cp', 'pp', 'dp'), tps } }
  const copies = [...new Set(kept.map(({ dp }) => dp))].sort((a, b) => a - b)
  if (copies.every(dp => batch % dp !== 0))
    return { code: 'no-plan/batch', values: { devices, batch, context: kept.some(({ cp }) => cp > 1), copies } }
  return { code: 'no-plan/constraints', values: { devices, batch, constraints: constraints.map(c => c.text) } }
}
