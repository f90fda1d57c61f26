/**
 * Compiled blocks for cost estimates. The instructions of a block depend on a few switches of a plan (mesh axes, recomputation,
 * precision): its *structure*. Only tensor sizes depend on the rest. One layer of each kind is compiled per structure, and every plan
 * with that structure costs the same instructions at its own sizes.
 */
import {
  bytesPer,
  defaultOrder,
  gradientIn,
  isCast,
  oneRank,
  type Precision,
  precisionFacts,
  type Stored,
  sizeOfAll,
  sizesOf,
} from '../../base/index.js'
import {
  type BlockDraftsByKind,
  compileBlocks,
  type Differentiated,
  differentiated,
  type MeshPlan,
  rowsOf,
  type ShardedMesh,
  scheduleOf,
  shardedMeshOf,
} from '../../compile/index.js'
import { madeBy, type Phase } from '../../ir/index.js'
import {
  type Block,
  buildModel,
  type Graph,
  layersOfEachKind,
  type Model,
  type StepShape,
  withAdapters,
} from '../../model/index.js'
import { Plan, Training } from '../../plan/index.js'
import { entry } from '../entry.js'
import { attentionOf, planInput } from '../job.js'
import { modelOfShape } from '../model.js'
import type { Software } from '../others/software.js'
import { fetchesEach, reducesEach } from '../schedules/stages.js'
import type { Setup, Split } from '../setup.js'
import { InstrCosts, sizedSegment } from './instr-costs.js'
import { Sizes } from './sizes.js'
import { continued, type Task, taskOf } from './tasks.js'

/** The instructions of each block and phase. With expert parallelism of routed layers only, otherwise of all blocks of the model. */
export type Structure = Readonly<Partial<Record<BlockName, BlockTasks>>>
export type BlockName = 'embedding' | 'plain' | 'routed' | 'head'

export type BlockTasks = Readonly<Record<TaskPhase, Task>>
export type TaskPhase = Extract<Phase, 'F' | 'I' | 'W' | 'B' | 'C'>

export type BuildModel = (step: StepShape) => Model

function builderOf({ shape }: Pick<Setup, 'shape'>): BuildModel {
  const config = layersOfEachKind(modelOfShape(shape), 1)
  return step => withAdapters(buildModel(config, step), shape.adapters)
}

const manySequences = 2 ** 16

/** Rings are compiled with sequences this many times as long, which 2 x 4 and 2 x 5 chunks (zigzag) divide. */
const anyRingDivides = 40

/** Steps of ring attention that are compiled at most: a longer ring repeats the last of them. */
const turnsWritten = 5

export class BlockStructures {
  readonly costs: InstrCosts
  readonly #setup: Omit<Setup, 'split'>
  readonly #build: BuildModel
  readonly #structures = new Map<string, Structure>()
  readonly #sizes = new Map<string, Sizes>()
  readonly #meshes = new Map<string, ShardedMesh>()
  readonly #models = new Map<string, Differentiated & { readonly built: Model }>()
  #model: Model | undefined

  constructor(setup: Omit<Setup, 'split'>, build = builderOf(setup)) {
    this.#setup = setup
    this.costs = new InstrCosts(setup)
    this.#build = build
  }

  /** `split`: as `ofBlocks` gives it. */
  of(split: Split): Structure {
    const { cp, tp, ulysses = 1, ep, etp = 1 } = split
    const { seq, window } = this.#setup.shape
    // With a window every step of a ring differs; ep may span ranks of cp.
    const isRing = split.ring && !(window && window.tokens < seq) && seq % (cp * tp) === 0 && ep * etp === 1
    if (!isRing) return this.#known(split, seq)
    const long = anyRingDivides * seq
    const turns = cp / ulysses - turnsWritten
    if (turns <= 0) return this.#known(split, long)
    return entry(this.#structures, `${this.#keyOf(split, long)} ${turns}`, () => {
      const ring = (outer: number) => this.#known({ ...split, cp: outer * ulysses }, long)
      return longerRing(ring(turnsWritten - 1), ring(turnsWritten), turns) ?? this.#known(split, seq)
    })
  }

  /** Compiled with sequences of length `seq`. */
  #known(split: Split, seq: number): Structure {
    return entry(this.#structures, this.#keyOf(split, seq), () => this.#compile(split, seq))
  }

  sizesOf(split: Split): Sizes {
    const { dp, tp, cp, ep, etp, ulysses, inOrder, imbalance, microbatch, microbatches } = split
    const key = [dp, tp, cp, ep, etp, ulysses, inOrder, imbalance, microbatch, microbatches].join()
    return entry(this.#sizes, key, () => this.#sizesOf(split))
  }

  /** The model with a batch of 1: its other dims are those of every plan. */
  get #plain(): Model {
    this.#model ??= this.#build({ batch: 1, seq: this.#setup.shape.seq, microbatches: 2 })
    return this.#model
  }

  #meshOf(split: Split, dims: Model['dims']): ShardedMesh {
    const { dp, tp, cp, ep, etp, ulysses, ring, inOrder, sequenceParallel } = split
    const key = [dp, tp, cp, ep, etp, ulysses, ring, inOrder, sequenceParallel, dims.seq].join()
    return entry(this.#meshes, key, () => shardedMeshOf(meshPlan(split), dims))
  }

  #sizesOf(split: Split): Sizes {
    const s = this.#meshOf(split, this.#plain.dims)
    const { dims, blocks } = this.#plain
    const batch = split.dp * split.microbatch
    const rows = rowsOf(
      { dims: { ...dims, batch } },
      blocks[blocks.length - 2].graph,
      { expertCapacity: split.imbalance ?? 1 },
      s,
    )
    return new Sizes(s.mesh, { batch, row: dims.row === undefined ? 0 : rows }, split.microbatches)
  }

  #keyOf(split: Split, seq: number): string {
    const dims: Model['dims'] = { ...this.#plain.dims, seq }
    const { mesh, axes, experts, ring } = this.#meshOf(split, dims)
    const { tp, cp, sequenceParallel, recompute, ops, overlap, fp8, zero, reduce, lifted } = split
    const turns = ring && sizeOfAll(mesh, ring)
    return [
      ...[axes, '/', experts.ep, '/', experts.etp, '/', mesh.zigzag?.axis, ring, turns],
      ...[sequenceParallel, recompute, ops, overlap, fp8, zero, reduce, lifted],
      ...[dims.vocab % tp === 0, seq % (cp * tp) === 0, seq],
    ].join()
  }

  #compile(split: Split, seq: number): Structure {
    const { precision, software } = this.#setup
    const stored = storedIn(precision, software)
    const training = Training.parse({
      ...{ seq, globalBatch: 2 * split.dp * split.microbatch },
      ...(stored.precision === 'f16' && { lossScale: { kind: 'torch' } }),
    })
    const plan = Plan.parse({ ...planInput({ ...split, microbatches: 2 }, precision), ...stored })
    const { built, ...known } = this.#modelFor(plan, training)
    const isAsked = (name: BlockName) => (split.ep > 1 ? name === 'routed' : true)
    const asked = namesOf(built).filter(([, name]) => isAsked(name))
    const input = { model: built, plan, training, schedule: scheduleOf(plan) }
    const blocks = asked.map(([{ name }]) => name)
    const { s, kinds } = compileBlocks(input, known, blocks)
    const times = seq / this.#setup.shape.seq
    return Object.fromEntries(asked.map(([{ kind }, name]) => [name, this.#tasksOf(s, kinds[kind], times)]))
  }

  /** Its batch is one that every power-of-two dp divides, so that plans share it: costs replace the batch by their own. */
  #modelFor(plan: Plan, training: Training): Differentiated & { readonly built: Model } {
    const batch = manySequences % plan.dp === 0 ? manySequences : plan.dp
    return entry(this.#models, `${batch} ${training.seq} ${plan.fp8?.recipe}`, () => {
      const built = this.#build({ batch, seq: training.seq, microbatches: plan.microbatches })
      return { built, ...differentiated(built, { plan, training }) }
    })
  }

  #tasksOf({ mesh }: ShardedMesh, drafts: BlockDraftsByKind['kinds'][string], times: number): BlockTasks {
    const segments = Object.entries(drafts).map(([phase, draft]) => [phase, sizedSegment(mesh, draft!, times)] as const)
    const made = new Set(Object.fromEntries(segments).F.segment.instrs.map(madeBy))
    const nothing = new Set<string>()
    const tasks = segments.map(([phase, one]) => {
      const again = phase === 'F' || phase === 'C' ? nothing : made
      return [phase, taskOf(one, this.costs, again)]
    })
    return Object.fromEntries(tasks) as BlockTasks // every phase was drafted
  }
}

/**
 * The switches and sizes of a plan that matter to its blocks. Gradients that are reduced after each microbatch are not accumulated, as
 * with a single microbatch; those of learned positions are then gathered.
 */
export function ofBlocks({ split, precision, shape }: Pick<Setup, 'split' | 'precision' | 'shape'>): Split {
  const { tp, cp, ulysses, ring, inOrder, fp8, ops, imbalance, microbatch } = split
  const [coded, leave] = [isCast(precision), reducesEach(split)]
  const zero = coded && fetchesEach(split) ? 3 : leave && shape.positions === 'learned' ? 2 : 0
  return {
    ...{ ...oneRank, tp, cp, dp: fp8 === 'current' ? split.dp : zero === 2 ? 2 : 1, zero },
    ...(ulysses !== undefined && { ulysses }),
    ...(ring && { ring }),
    ...(inOrder && { inOrder }),
    ...(fp8 && { fp8 }),
    ...(imbalance !== undefined && { imbalance }),
    ...(split.overlap === false && { overlap: false }),
    ...{ sequenceParallel: split.sequenceParallel, recompute: split.recompute },
    ...(ops && { ops }),
    ...(zero === 3 && split.reduce && { reduce: split.reduce }),
    ...(coded && split.lifted && { lifted: split.lifted }),
    ...{ schedule: '1f1b', chunks: 1, microbatches: leave ? 1 : split.microbatches, microbatch },
  }
}

/** The same with the axes of the experts, and the ranks of dp that they span. */
export function ofRouted(setup: Pick<Setup, 'split' | 'precision' | 'shape'>): Split {
  const { tp, cp, ep, etp = 1, fp8 } = setup.split
  const { dp, ...stream } = ofBlocks(setup)
  return { ...stream, ep, etp, dp: dp * (fp8 === 'current' ? 1 : Math.max(1, (ep * etp) / (tp * cp))) }
}

const meshPlan = (split: Split): Parameters<typeof shardedMeshOf>[0] => ({
  ...{ ...sizesOf(split), pp: 1, etp: split.etp ?? 1, sequenceParallel: split.sequenceParallel },
  ...{ rankOrder: defaultOrder, zigzag: split.inOrder ? false : undefined },
  attention: (attentionOf(split).attention ?? 'gather') as MeshPlan['attention'], // as a plan has it once it is read
})

/** The plan precision with gradients of this width. */
function storedIn(precision: Precision, { gradientBytes }: Software): Stored {
  const stored: Stored = { precision: precisionFacts[precision].plan }
  if (bytesPer[gradientIn(stored)] === gradientBytes) return stored
  return { ...stored, gradients: gradientBytes === 2 ? 'bf16' : 'f32' }
}

/** A ring with `turns` more steps than are compiled; undefined if the repeated step cannot be recognized. */
function longerRing(fewer: Structure, written: Structure, turns: number): Structure | undefined {
  const longer: Partial<Record<BlockName, BlockTasks>> = {}
  for (const [name, tasks] of Object.entries(written) as [BlockName, BlockTasks][]) {
    const own: Partial<Record<TaskPhase, Task>> = {}
    for (const [phase, task] of Object.entries(tasks) as [TaskPhase, Task][]) {
      const all = continued(fewer[name]![phase], task, turns)
      if (!all) return undefined
      own[phase] = all
    }
    longer[name] = own as BlockTasks // of every phase
  }
  return longer
}

/** The first block is the embedding, the last one the head. */
function namesOf({ blocks }: Model): (readonly [Block, BlockName])[] {
  const last = blocks.length - 1
  const nameOf = ({ graph }: Block, at: number): BlockName =>
    at === 0 ? 'embedding' : at === last ? 'head' : isOfExperts(graph) ? 'routed' : 'plain'
  return blocks.map((block, at) => [block, nameOf(block, at)])
}

const isOfExperts = ({ nodes }: Graph): boolean => nodes.some(({ op }) => op.kind === 'rowsOf')
