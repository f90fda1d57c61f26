/**
 * Units of feed-forward layers, and whole experts, that no longer learn: their gradients are exactly zero, step after step. Nobody keeps
 * gradients, but optimizers keep a mean of them, and without a gradient that only shrinks, by a factor that is known. Now and then a few
 * of its numbers for each unit are compared over one step: next to nothing is read.
 */
import { type Dim, elementsOf, type Optimizer, worldOf } from '../base/index.js'
import { type Shard, shardsOf } from '../checkpoint/index.js'
import type { StepResult, Trainer } from '../engine/index.js'
import type { Param, Program } from '../ir/index.js'
import { type Job, toldFor } from '../plan/index.js'

/** Of the layer that has most of them. */
export interface DeadUnits {
  readonly layer: string
  /** Units without a gradient, and how many it has. */
  readonly units: number
  readonly of: number
  /** Experts all of whose units are such, where there are some. */
  readonly experts?: readonly number[]
  /** For so many steps, at least. */
  readonly steps: number
}

/** A look takes two steps; the next begins so many steps later. */
const every = 8
/** Looks in a row that must find the same. */
const looks = 6
/** Of the units of a layer: fewer are no news. */
const leastShare = 0.01
/** What a mean that only shrinks may be off by, for rounding. */
const tolerance = 2 ** -18

/** What is looked for, for whoever looks elsewhere: emitted runs are told. */
export interface UnitSettings {
  readonly every: number
  readonly looks: number
  readonly share: number
  readonly tolerance: number
  readonly dims: readonly string[]
  /** What the mean of gradients is multiplied by in a step without one. */
  readonly shrinks: number
}

/** Undefined: what the optimizer keeps does not tell, or lies elsewhere. */
export function unitSettings({ training, plan }: Job): UnitSettings | undefined {
  const shrinks = shrinkingOf(toldFor(training, 'matrix').optimizer)
  if (shrinks === undefined || plan.offload) return undefined
  return { every, looks, share: leastShare, tolerance, dims: unitDims, shrinks }
}

/** Matrices that share their units. */
interface Layer {
  readonly name: string
  readonly params: readonly Param[]
  readonly units: number
  readonly experts: number
}

/** To be asked after each step; answers where a look has ended and found something. */
export type UnitLooks = (
  program: Program,
  step: number,
  result: Pick<StepResult, 'skipped'>,
) => { readonly dead?: DeadUnits }

export function unitLooks(job: Job, trainer: Pick<Trainer, 'held'>): UnitLooks {
  const settings = unitSettings(job)
  if (!settings) return () => ({})
  const { shrinks } = settings
  const inARow = new Map<string, Int32Array>()
  let before: { readonly step: number; readonly means: Means } | undefined
  let places: Places | undefined
  return (program, step, { skipped }) => {
    const phase = step % every
    const last = before
    before = undefined
    if (phase > 1 || skipped) return {}
    // Another program only where the batch grows.
    places = places?.program === program ? places : placesOf(program)
    const { layers } = places
    const means = meansIn(places, trainer)
    if (phase === 0) before = { step, means }
    if (last?.step !== step - 1 || phase === 0) return {}
    const dead = layers.map(layer => {
      const counts = inARow.get(layer.name) ?? new Int32Array(layer.units)
      inARow.set(layer.name, counts)
      countLook(layer, { before: last.means, after: means, shrinks }, counts)
      return deadIn(layer, counts)
    })
    return worstOf(dead.flatMap(one => one ?? []))
  }
}

const worstOf = (found: readonly DeadUnits[]) =>
  found.length > 0 ? { dead: found.reduce((a, b) => (b.units / b.of > a.units / a.of ? b : a)) } : {}

/** What the mean of gradients is multiplied by in a step without one; undefined: it is not kept, or follows something else as well. */
function shrinkingOf(optimizer: Optimizer): number | undefined {
  switch (optimizer.kind) {
    case 'adamw':
      return optimizer.coupled ? undefined : optimizer.beta1
    case 'lamb':
      return optimizer.beta1
    case 'lion':
      return optimizer.beta2
    case 'muon':
      return optimizer.momentum
    case 'sgd':
      return optimizer.momentum > 0 && optimizer.weightDecay === 0 ? optimizer.momentum : undefined
    case 'adafactor':
      return undefined
  }
}

/** What units of a layer, of an expert and of what all tokens share lie along. */
const unitDims = ['ffn', 'expertFfn', 'sharedFfn']
const isUnit = ({ name }: Dim): boolean => unitDims.includes(name)
const sizeOf = (dims: readonly Dim[], is: (dim: Dim) => boolean): number => dims.find(is)?.size ?? 1

function layersOf({ params }: Program): Layer[] {
  const byLayer = new Map<string, Param[]>()
  for (const param of params) {
    const isThere = Object.values(param.frames).some(({ states }) => states.m !== undefined)
    if (!isThere || !param.dims.some(isUnit) || !param.dims.some(({ name }) => name === 'embed')) continue
    const layer = param.name.slice(0, Math.max(0, param.name.lastIndexOf('.')))
    byLayer.set(layer, [...(byLayer.get(layer) ?? []), param])
  }
  return [...byLayer].map(([name, params]) => {
    const [{ dims }] = params
    const experts = sizeOf(dims, ({ name }) => name === 'expert')
    return { name, params, experts, units: experts * sizeOf(dims, isUnit) }
  })
}

/** Of each matrix, three numbers of every unit: where features begin, in their middle, and where they end. */
const samples = 3

/** By the name of the tensor that holds them. */
type Means = ReadonlyMap<string, Float64Array>

const meanOf = ({ name }: Param): string => `m.${name}`

/** What is looked at of a program, and the parts of it that ranks hold. */
interface Places {
  readonly program: Program
  readonly layers: readonly Layer[]
  readonly shards: readonly Shard[]
}

function placesOf(program: Program): Places {
  const layers = layersOf(program)
  const wanted = new Set(layers.flatMap(({ params }) => params.map(meanOf)))
  const ranks = Array.from({ length: worldOf(program.mesh) }, (_, rank) => rank)
  const shards = ranks.flatMap(rank => shardsOf(program, rank).filter(one => one.written && wanted.has(one.tensor)))
  return { program, layers, shards }
}

function meansIn({ layers, shards }: Places, trainer: Pick<Trainer, 'held'>): Means {
  const means = new Map(
    layers.flatMap(({ params, units }) =>
      params.map(param => [meanOf(param), new Float64Array(samples * units)] as const),
    ),
  )
  for (const shard of shards) readUnits(shard, trainer.held(shard), means.get(shard.tensor)!)
  return means
}

/** Those that lie in this part. */
function readUnits(
  { dims, start, shape, line = [0, elementsOf(dims)] }: Shard,
  held: ArrayLike<number>,
  values: Float64Array,
): void {
  const along = (name: string) => dims.findIndex(dim => dim.name === name)
  const [expert, unit, feature] = [along('expert'), dims.findIndex(isUnit), along('embed')]
  const strides = shape.map((_, d) => shape.slice(d + 1).reduce((product, size) => product * size, 1))
  const [ffn, embed] = [dims[unit].size, dims[feature].size]
  const range = (d: number) => (d < 0 ? [0, 1] : [start[d], start[d] + shape[d]])
  const place = (d: number, index: number) => (d < 0 ? 0 : (index - start[d]) * strides[d])
  const [[firstExpert, lastExpert], [first, last], [least, most]] = [expert, unit, feature].map(range)
  for (const [i, at] of [0, embed >> 1, embed - 1].entries()) {
    if (at < least || at >= most) continue
    for (let e = firstExpert; e < lastExpert; e++)
      for (let u = first; u < last; u++) {
        const index = place(expert, e) + place(unit, u) + place(feature, at)
        if (index >= line[0] && index < line[1]) values[samples * (e * ffn + u) + i] = held[index - line[0]]
      }
  }
}

interface Compared {
  readonly before: Means
  readonly after: Means
  readonly shrinks: number
}

function countLook({ params, units }: Layer, { before, after, shrinks }: Compared, counts: Int32Array): void {
  const pairs = params.map(param => [before.get(meanOf(param))!, after.get(meanOf(param))!] as const)
  for (let u = 0; u < units; u++) {
    const isDead = pairs.every(([was, is]) => {
      for (let i = samples * u; i < samples * (u + 1); i++)
        if (Math.abs(is[i] - shrinks * was[i]) > tolerance * Math.abs(was[i])) return false
      return true
    })
    counts[u] = isDead ? counts[u] + 1 : 0
  }
}

function deadIn({ name, units, experts }: Layer, counts: Int32Array): DeadUnits | undefined {
  const dead = counts.reduce((sum, count) => sum + Number(count >= looks), 0)
  if (dead < Math.max(1, leastShare * units)) return undefined
  const each = units / experts
  const whole = Array.from({ length: experts }, (_, e) => e).filter(e =>
    counts.subarray(e * each, (e + 1) * each).every(count => count >= looks),
  )
  const idle = experts > 1 && whole.length > 0 ? { experts: whole } : {}
  return { layer: name, units: dead, of: units, ...idle, steps: every * (looks - 1) }
}
