/**
 * Why a rank needs the memory it needs: every tensor and layer, and beside each kind, and each term of it, what the textbook says. ZeRO:
 * Rajbhandari et al. 2020 (arXiv 1910.02054, section 3); activations of a layer: Korthikanti et al. 2022 (arXiv 2205.05198, section 4).
 */
import { bytesPer, counted } from '../base/index.js'
import type { Kind, Param, Program } from '../ir/index.js'
import { dataGroups, type Job } from '../plan/index.js'
import { activationTerms, type TermWhy } from './why-activations.js'
import { stateTerms } from './why-states.js'

export interface MemoryWhy {
  /** The pipeline coordinate whose ranks need most. */
  readonly pp: number
  readonly kinds: readonly KindWhy[]
  /** Of each kind that has a formula its terms; their exact bytes add up to the kind's. */
  readonly terms: readonly TermWhy[]
  readonly tensors: readonly TensorBytes[]
}

export interface KindWhy {
  readonly kind: Kind
  /** Bytes of the program, at the peak of this kind. */
  readonly exact: number
  /** What the formula gives, where there is one, and how it is written with its numbers. */
  readonly textbook?: number
  readonly formula?: string
  readonly source?: string
  /** What makes up the difference. */
  readonly because?: string
}

/** What lives from step to step, of one parameter on one rank. */
export interface TensorBytes {
  /** 'layers.0', 'embed', 'head' */
  readonly layer: string
  readonly tensor: string
  readonly parameters: number
  readonly gradients: number
  readonly optimizer: number
}

const zero = 'ZeRO, arXiv 1910.02054, section 3'
const korthikanti = 'Korthikanti et al., arXiv 2205.05198, section 4'

/** Where the memory of a pipeline stage comes from, next to the analytic formulas (ZeRO, Korthikanti et al.). */
export function memoryWhy(job: Job, program: Program, pp: number): MemoryWhy {
  const { peak, frames } = program.streams[pp]
  const held = program.params.filter(param => param.frames[pp] !== undefined)
  const bytesOf = (frame: number | undefined): number => (frame === undefined ? 0 : frames[frame].bytes)
  const tensors = held.map(param => {
    const { param: weights, grad, states } = param.frames[pp]
    const [, layer, tensor] = /^(layers\.\d+|[^.]+)\.(.*)$/.exec(param.name) ?? ['', '', param.name]
    return {
      ...{ layer, tensor, parameters: bytesOf(weights), gradients: bytesOf(grad) },
      optimizer: Object.values(states ?? {}).reduce((sum, state) => sum + bytesOf(state), 0),
    }
  })
  const ofActivations = activationTerms(job, program, pp)
  const textbook: Partial<Record<Kind, Omit<KindWhy, 'kind' | 'exact'>>> = {
    ...statesByTheBook(job, held),
    activations: activationsByTheBook(job, ofActivations, pp),
  }
  const used = (Object.keys(peak) as Kind[]).filter(kind => peak[kind] > 0) // the keys of a record of kinds
  const terms = [...stateTerms(job, program, pp), ...ofActivations]
  return { pp, kinds: used.map(kind => ({ kind, exact: peak[kind], ...textbook[kind] })), terms, tensors }
}

const sizeOf = ({ dims }: Param): number => dims.reduce((n, { size }) => n * size, 1)

/** Bytes of each parameter, of its gradient and of what the optimizer keeps, cut as the stage of ZeRO says. */
function statesByTheBook(
  { plan, training }: Job,
  held: readonly Param[],
): Partial<Record<Kind, Omit<KindWhy, 'kind' | 'exact'>>> {
  const { tp, cp, zero: stage, precision } = plan
  const { shard, groups } = dataGroups(plan)
  const all = held.reduce((n, param) => n + sizeOf(param), 0)
  const share = shard * cp
  const halves = precision === 'bf16' || precision === 'f16'
  const one = (bytes: number, from: number, because: string) => ({
    textbook: (bytes * all) / tp / (stage >= from ? share : 1),
    formula: `${bytes} x ${all} / tp ${tp}${stage >= from && share > 1 ? ` / ${groups > 1 ? 'shard' : 'dp'} x cp ${share}` : ''}`,
    ...{ source: zero, because },
  })
  const moments = training.optimizer.kind === 'adamw' ? 8 : 4
  return {
    parameters: one(
      halves ? 2 : 4,
      3,
      stage === 3 ? 'layers are all-gathered while they are used' : 'parameters that tp does not shard are replicated',
    ),
    gradients: one(
      plan.gradients === 'bf16' ? 2 : 4,
      2,
      `they are summed in ${plan.gradients ?? 'f32'}; those of one microbatch are kept until they are ${stage >= 2 ? 'reduced' : 'added'}`,
    ),
    optimizer: one(
      moments + (halves ? 4 : 0),
      1,
      'parameters that tp does not shard are replicated; shards are padded to equal size',
    ),
  }
}

/** s b h (34 + 5 a s / h) bytes of a layer in 16 bits, less what is split and what is computed again; so many layers and microbatches. */
function activationsByTheBook(job: Job, terms: readonly TermWhy[], pp: number): Omit<KindWhy, 'kind' | 'exact'> {
  const { model, training, plan } = job
  if (model.family === 'mlp') return {}
  const { tp, cp, sequenceParallel: sp, recompute } = plan
  const [s, b, h] = [training.seq / cp, training.globalBatch / plan.dp / plan.microbatches, model.embed]
  const scores = (5 * model.heads * training.seq) / h
  const sbh = s * b * h
  const wide = (plan.precision === 'f32' ? bytesPer.f32 : bytesPer.bf16) / bytesPer.bf16
  const linear = sp ? 34 / tp : 10 + 24 / tp
  const byRecompute: Readonly<Record<string, readonly [number, string]>> = {
    full: [2 / (sp ? tp : 1), '2'],
    selective: [linear, sp ? `34 / tp` : '10 + 24 / tp'],
    none: [linear + scores / tp, `${sp ? '34 / tp' : '10 + 24 / tp'} + 5 a s / h / tp`],
  }
  const [factor, words] = byRecompute[String(recompute)] ?? byRecompute.none
  const layers = (model.layers / plan.pp) | 0
  const open = Math.min(plan.microbatches, plan.pp - pp)
  const kept = terms.reduce((sum, { formula, exact }) => (formula === undefined ? sum : sum + exact), 0)
  const ours = kept / sbh / layers / open
  return {
    textbook: wide * factor * sbh * layers * open,
    formula: `${wide === 2 ? '2 x ' : ''}s b h (${words}) x ${counted(layers, 'layer')} x ${counted(open, 'microbatch')}, s ${s} b ${b} h ${h}`,
    source: korthikanti,
    because: `a layer keeps ${ours.toFixed(1)} s b h here, ${(wide * factor).toFixed(1)} there: fused attention keeps no scores, and the formula has a feed-forward of 4 h, dropout and 1f1b`,
  }
}
