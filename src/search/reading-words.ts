/** Explanations of a plan, decision by decision, as data and in English. */
import { counted, type Nothing, showBytes, showCount, showPercent, type Wording } from '../base/index.js'
import type { Split } from '../estimate/index.js'

interface State {
  readonly parameters: number
  /** Bytes of state of each parameter, and of all. */
  readonly each: number
  readonly bytes: number
}

interface Tensor {
  readonly tp: number
  readonly sequenceParallel: boolean
}

/** The links that tp has most of: those of a node, or what the cluster calls it. */
interface Node extends Tensor {
  readonly node: string
  readonly size: number
  readonly link: string
}

interface Experts {
  readonly ep: number
  readonly experts: number
}

interface Used {
  readonly bytes: number
  readonly recompute: Split['recompute']
}

/** Layers of the stages that also hold embedding and head. */
export interface Ends {
  readonly first: number
  readonly last: number
}

export interface ReadingValues {
  'fit/one-device': State
  'fit/shared': State & { readonly devices: number }
  'tp/none': Nothing
  'tp/torus': Tensor
  'tp/within-node': Node
  'tp/across-nodes': Node
  'cp/cut': {
    readonly cp: number
    readonly tokens: number
    /** Of one rank. */
    readonly each: number
    /** What it leaves, where it leaves one: 'node'. */
    readonly across?: string
    /** How keys meet queries, of our own program: 'ring'. */
    readonly attention?: string
  }
  'ep/busiest': Experts & { readonly times: number }
  'ep/even': Experts
  'ep/all-rows': Experts & { readonly times: number }
  'ep/every-row': Experts
  'ep/priced': Experts & { readonly times: number; readonly rows: number | 'worst'; readonly worst: number }
  'pp/none': Nothing
  'pp/zero': Nothing
  'pp/shared': {
    readonly pp: number
    readonly layers: number
    readonly chunks: number
    readonly schedule: string
    /** Absent: evenly. */
    readonly ends?: Ends
  }
  'dp/none': Nothing
  'dp/context': { readonly zero: Split['zero'] }
  'dp/copies': { readonly dp: number; readonly zero: Split['zero'] }
  'batch/shared': {
    readonly batch: number
    readonly dp: number
    /** Sequences of one copy. */
    readonly share: number
    readonly microbatches: number
    readonly microbatch: number
    /** Of the step, from 0 to 1; absent without a pipeline. */
    readonly bubble?: number
  }
  'memory/spare': Used & { readonly left: number }
  'memory/over': Used & { readonly over: number }
}

const state = ({ parameters, each, bytes }: State): string =>
  `${showCount(parameters)} parameters x ${each} bytes of state = ${showBytes(bytes)}`

const sequence = ({ sequenceParallel }: Tensor): string => (sequenceParallel ? ', with sequence parallelism' : '')

const shared = ({ ep, experts }: Experts): string =>
  ep > 1 ? `ep ${ep} shards ${experts} experts, ${experts / ep} per rank` : 'experts are not sharded'

const split = ['nothing sharded', 'optimizer state sharded', 'gradients sharded too', 'parameters sharded too'] as const

const again = {
  none: 'no recomputation',
  cheap: 'norms and activation functions are recomputed',
  selective: 'attention is recomputed',
  full: 'the full forward pass is recomputed',
  'per-op': 'some ops are recomputed',
} as const

/** 'first 5, last none' */
export function showEnds({ first, last }: Ends): string {
  const held = (n: number) => (n === 0 ? 'none' : n)
  return `first ${held(first)}, last ${held(last)}`
}

export const endsOf = (layers: readonly number[]): Ends => ({ first: layers[0] ?? 0, last: layers.at(-1) ?? 0 })

export const readingWords: Wording<ReadingValues> = {
  'fit/one-device': v => `${state(v)}: fits on one device`,
  'fit/shared': v => `${state(v)}: needs at least ${v.devices} devices`,
  'tp/none': () => 'no tensor parallelism: no layer is split',
  'tp/torus': v => `tp ${v.tp} along the torus${sequence(v)}`,
  'tp/within-node': v => `tp ${v.tp} stays within the ${v.node} of ${v.size} (${v.link})${sequence(v)}`,
  'tp/across-nodes': v => `tp ${v.tp} extends beyond the ${v.node} of ${v.size} (${v.link})${sequence(v)}`,
  'cp/cut': ({ cp, tokens, each, across, attention }) =>
    `cp ${cp} shards ${tokens} tokens into ${each} per rank${across ? `, across ${across}s` : ''}${attention ? `, attention ${attention}` : ''}`,
  'ep/busiest': v => `${shared(v)}; the busiest rank has ${v.times} times the average`,
  'ep/even': v => `${shared(v)}; estimated for a balanced load`,
  'ep/all-rows': v => `${shared(v)}; buffers for the worst case, ${v.times} times a balanced load`,
  'ep/every-row': v => `${shared(v)}; every rank has buffers for the worst case`,
  'ep/priced': v =>
    `${shared(v)}; estimated with ${v.times} times a balanced load (expertCapacity: ${v.rows}); a step above that stops before its update, expertCapacity: worst allows ${v.worst}`,
  'pp/none': () => 'no pipeline: every rank has all layers',
  'pp/zero': () => 'no pipeline: ZeRO-3 shards the parameters instead',
  'pp/shared': ({ pp, layers, chunks, schedule, ends }) =>
    `pp ${pp} splits the ${layers} layers (${ends ? showEnds(ends) : 'evenly'})${chunks > 1 ? `, ${chunks} virtual stages per rank` : ''}, ${schedule}`,
  'dp/none': () => 'no data parallelism: all devices hold one model',
  'dp/context': ({ zero }) => `no data parallelism; the cp ranks shard instead (ZeRO ${zero})`,
  'dp/copies': ({ dp, zero }) => `dp ${dp} replicas for throughput, ${split[zero]} (ZeRO ${zero})`,
  'batch/shared': ({ batch, dp, share, microbatches, microbatch, bubble }) =>
    `${batch} sequences / dp ${dp} = ${share} = ${counted(microbatches, 'microbatch')} of ${microbatch}${bubble === undefined ? '' : `; the bubble takes ${showPercent(bubble)} of the step`}`,
  'memory/spare': v => `${showBytes(v.bytes)} per rank, ${showBytes(v.left)} free; ${again[v.recompute]}`,
  'memory/over': v => `${showBytes(v.bytes)} per rank, ${showBytes(v.over)} too much; ${again[v.recompute]}`,
}
