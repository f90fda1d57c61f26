/**
 * When no plan works: why, and the nearest things that would. A request is loosened in one way at a time (a constraint
 * dropped, more devices, another batch, more memory), each as little as makes a plan possible; nothing is guessed,
 * every suggestion was searched and has a plan.
 */
import type { Cluster } from '../cluster/index.js'
import { type Constraint, memoryLimit } from './constraint.js'
import type { Request } from './request.js'
import { capacityOf, type Priced, priceOf, search } from './search.js'
import { type Group, groupsOf, pipelinesOf, savingsOf, splitFrom } from './space.js'

export interface Impossible {
  readonly cause: Cause
  /** The lightest plan there is, if there are plans at all. */
  readonly lightest?: Priced
  readonly capacity: number
  readonly instead: readonly Instead[]
}

/** No mesh: devices, batch, model and constraints leave no plan. No room: there are plans, and none fits. */
export type Cause = 'mesh' | 'memory'

export interface Instead {
  readonly kind: 'constraint' | 'devices' | 'batch' | 'memory'
  /** What to change: 'without tp=8', '--devices 8'. */
  readonly change: string
  /** The best plan then. */
  readonly best: Priced
}

export type ClusterAt = (devices: number) => Cluster | undefined

export function whyImpossible(request: Request, clusterAt: ClusterAt): Impossible {
  const lightest = lightestOf(request)
  const capacity = capacityOf(request)
  const found: readonly (Instead | undefined)[] = [
    ...withoutConstraints(request),
    ...otherDevices(request, clusterAt),
    ...otherBatches(request),
    moreMemory(request, lightest),
  ]
  const instead = found.filter(one => one !== undefined)
  return { cause: lightest ? 'memory' : 'mesh', capacity, instead, ...(lightest && { lightest }) }
}

const bestOf = (request: Request): Priced | undefined => search(request, { keep: 1, front: false }).best[0]

/** Of each way to cut devices and batch only the smallest microbatch, under every saving there is. */
function lightestOf(request: Request): Priced | undefined {
  const smallest = new Map<string, Group>()
  for (const group of groupsOf(request)) {
    const key = `${group.tp} ${group.pp} ${group.sequenceParallel}`
    if (!smallest.has(key)) smallest.set(key, group)
  }
  let lightest: Priced | undefined
  for (const group of smallest.values())
    for (const pipeline of pipelinesOf(request, group.pp))
      for (const saving of savingsOf(group.dp, request.constraints)) {
        const plan = priceOf(request, splitFrom(group, pipeline, saving))
        if (!lightest || plan.bytes < lightest.bytes) lightest = plan
      }
  return lightest
}

function* withoutConstraints(request: Request): Generator<Instead> {
  const all = request.constraints
  const without = (dropped: readonly Constraint[]) => ({
    ...request,
    constraints: all.filter(c => !dropped.includes(c)),
  })
  let one = false
  for (const constraint of all) {
    const best = bestOf(without([constraint]))
    if (best) yield { kind: 'constraint', change: `without ${constraint.text}`, best }
    one ||= best !== undefined
  }
  if (one || all.length < 2) return
  const best = bestOf(without(all))
  if (best) yield { kind: 'constraint', change: 'without any constraint', best }
}

const mostDevices = 2 ** 17

/** The least number above and the greatest below that work: multiples of what must divide them, then doubling. */
function* otherDevices(request: Request, clusterAt: ClusterAt): Generator<Instead> {
  const { devices } = request.cluster
  const factor = devicesFactor(request)
  const try_ = (count: number): Instead | undefined => {
    const cluster = count >= 1 && count <= mostDevices ? clusterAt(count) : undefined
    const best = cluster && bestOf({ ...request, cluster })
    return best && { kind: 'devices', change: `--devices ${count}`, best }
  }
  const up = firstOf(upwards(devices, factor), try_)
  if (up) yield up
  const down = devices > factor ? firstOf(downwards(devices, factor), try_) : undefined
  if (down) yield down
}

/** What `tp=8` and its like say must divide the number of devices. */
const devicesFactor = ({ constraints }: Request): number =>
  constraints.reduce(
    (product, c) =>
      'value' in c && c.relation === '=' && (c.field === 'tp' || c.field === 'pp' || c.field === 'dp')
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

function firstOf<T>(candidates: Iterable<number>, attempt: (n: number) => T | undefined): T | undefined {
  for (const n of candidates) {
    const found = attempt(n)
    if (found !== undefined) return found
  }
  return undefined
}

/** The nearest batches above and below that some plan can share out: a batch is hardly ever what one insists on. */
function* otherBatches(request: Request): Generator<Instead> {
  const { globalBatch, cluster } = request
  const attempt = (batch: number): Instead | undefined => {
    const best = bestOf({ ...request, globalBatch: batch })
    return best && { kind: 'batch', change: `--global-batch ${batch}`, best }
  }
  const powers = Array.from({ length: 17 }, (_, i) => cluster.devices / 2 ** i).filter(Number.isInteger)
  const near = (step: number, up: boolean) =>
    up ? (Math.floor(globalBatch / step) + 1) * step : Math.ceil(globalBatch / step - 1) * step
  const above = [...new Set(powers.map(step => near(step, true)))].sort((a, b) => a - b)
  const below = [...new Set(powers.map(step => near(step, false)))].filter(n => n > 0).sort((a, b) => b - a)
  const up = firstOf(above, attempt)
  if (up) yield up
  const down = firstOf(below, attempt)
  if (down) yield down
}

/** As much as the lightest plan asks for. */
function moreMemory(request: Request, lightest: Priced | undefined): Instead | undefined {
  if (!lightest || lightest.bytes <= memoryLimit(request.constraints)) return undefined
  return { kind: 'memory', change: 'a higher limit on memory', best: lightest }
}
