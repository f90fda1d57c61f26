/**
 * The blocks of our own program, compiled once for each structure: what a block does depends on a few switches of a plan (which axes
 * there are, what is repeated, in what precision), its sizes on all of it. One layer of each kind is compiled for the first plan
 * that has a structure; for others that share it the same instructions have other sizes.
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
  sizesOf,
} from '../../base/index.js'
import {
  type BlockDraftsByKind,
  compileBlocks,
  type Differentiated,
  differentiated,
  expertAxesOf,
  type MeshPlan,
  meshOf,
  rowsOf,
  type ShardedMesh,
  scheduleOf,
  shardedOn,
} from '../../compile/index.js'
import { madeBy, type Phase } from '../../ir/index.js'
import { type Block, buildModel, type Graph, type Model, type StepShape, withAdapters } from '../../model/index.js'
import { Plan, Training } from '../../plan/index.js'
import { entry } from '../entry.js'
import { attentionOf, planInput } from '../job.js'
import { modelOfShape, oneOfEachKind } from '../model.js'
import type { Software } from '../others/software.js'
import { fetchesEach, reducesEach } from '../schedules/stages.js'
import type { Setup, Split } from '../setup.js'
import { InstrCosts, sizedSegment } from './instr-costs.js'
import { Sizes } from './sizes.js'
import { continued, type Task, taskOf } from './tasks.js'

/**
 * What blocks are made of: the tasks of each, and what makes codes of its parameters. Of a plan that splits experts only layers that have
 * some, of others all that there are.
 */
export type Structure = Readonly<Partial<Record<BlockName, BlockTasks>>>
export type BlockName = 'embedding' | 'plain' | 'routed' | 'head'

export type BlockTasks = Readonly<Record<TaskPhase, Task>>
export type TaskPhase = Extract<Phase, 'F' | 'I' | 'W' | 'B' | 'C'>

export type BuildModel = (step: StepShape) => Model

function builderOf({ shape }: Pick<Setup, 'shape'>): BuildModel {
  const config = oneOfEachKind(modelOfShape(shape))
  return step => withAdapters(buildModel(config, step), shape.adapters)
}

const manySequences = 2 ** 16

/** So many times as long a sequence is cut in two by every rank of the rings that are written out, in zigzag, too. */
const anyRingDivides = 40

/** Of a ring so many turns are written out at the most: those after the first few are alike. */
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
    // Through a window no two turns are alike; experts may be shared by ranks of cp.
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

  /** Compiled with sequences of that length, whatever they are. */
  #known(split: Split, seq: number): Structure {
    return entry(this.#structures, this.#keyOf(split, seq), () => this.#compile(split, seq))
  }

  sizesOf(split: Split): Sizes {
    const { dp, tp, cp, ep, etp, ulysses, inOrder, imbalance, microbatch, microbatches } = split
    const key = [dp, tp, cp, ep, etp, ulysses, inOrder, imbalance, microbatch, microbatches].join()
    return entry(this.#sizes, key, () => this.#sizesOf(split))
  }

  /** The model of one microbatch of one sequence: its dims, but for the batch, are those of all. */
  get #plain(): Model {
    this.#model ??= this.#build({ batch: 1, seq: this.#setup.shape.seq, microbatches: 2 })
    return this.#model
  }

  #meshOf(split: Split, dims: Model['dims']): ShardedMesh {
    const { dp, tp, cp, ep, etp, ulysses, ring, inOrder, sequenceParallel } = split
    const key = [dp, tp, cp, ep, etp, ulysses, ring, inOrder, sequenceParallel, dims.seq].join()
    return entry(this.#meshes, key, () => meshFor(split, dims))
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
    const turns = ring?.reduce((product, axis) => product * mesh.axes.find(({ name }) => name === axis)!.size, 1)
    return [
      ...[axes, '/', experts.ep, '/', experts.etp, '/', mesh.zigzag?.axis, ring, turns],
      ...[sequenceParallel, recompute, ops, overlap, fp8, zero, reduce, lifted],
      ...[dims.vocab % tp === 0, seq % (cp * tp) === 0, seq],
    ].join()
  }

  #compile(split: Split, seq: number): Structure {
    const { precision, software, scaled } = this.#setup as Setup
    const stored = storedIn(precision, software)
    const scales = scaled || stored.precision === 'f16'
    const training = Training.parse({
      ...{ seq, globalBatch: 2 * split.dp * split.microbatch },
      ...(scales && { lossScale: { kind: 'torch' } }),
    })
    const plan = Plan.parse({
      ...planInput({ ...split, microbatches: 2 }, precision),
      ...stored,
      expertCapacity: split.imbalance ?? 1,
    })
    const { built, ...known } = this.#modelFor(plan, training)
    const isAsked = (name: BlockName) => (split.ep > 1 ? name === 'routed' : true)
    const asked = namesOf(built).filter(([, name]) => isAsked(name))
    const input = { model: built, plan, training, schedule: scheduleOf(plan) }
    const blocks = asked.map(([{ name }]) => name)
    const { s, kinds } = compileBlocks(input, known, blocks)
    const times = seq / this.#setup.shape.seq
    return Object.fromEntries(asked.map(([{ kind }, name]) => [name, this.#tasksOf(s, kinds[kind], times)]))
  }

  /** Its batch is one that any number of ranks divides, as far as they are a power of two: what is not sized differently is the same for all. */
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
 * What of a plan a block depends on: these switches, and sizes. Gradients that leave after each microbatch are not added up, as those of
 * the only one are not; positions that are learned are then brought together.
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

/** With what experts need of a mesh. */
export function ofRouted(setup: Pick<Setup, 'split' | 'precision' | 'shape'>): Split {
  const { tp, cp, ep, etp = 1, fp8 } = setup.split
  const { dp, ...stream } = ofBlocks(setup)
  return { ...stream, ep, etp, dp: dp * (fp8 === 'current' ? 1 : Math.max(1, (ep * etp) / (tp * cp))) }
}

function meshFor(split: Split, dims: Model['dims']): ShardedMesh {
  const plan = meshPlan(split)
  return shardedOn(meshOf(plan, dims), { ...plan, sequenceParallel: split.sequenceParallel }, expertAxesOf(plan, dims))
}

const meshPlan = (split: Split): MeshPlan => ({
  ...{ ...sizesOf(split), pp: 1, etp: split.etp ?? 1 },
  ...{ rankOrder: defaultOrder, zigzag: split.inOrder ? false : undefined },
  attention: (attentionOf(split).attention ?? 'gather') as MeshPlan['attention'], // as a plan has it once it is read
})

/** The precision of a plan that stores what such a program does. */
function storedIn(precision: Precision, { gradientBytes }: Software): Stored {
  const stored: Stored = { precision: precisionFacts[precision].plan }
  if (bytesPer[gradientIn(stored)] === gradientBytes) return stored
  return { ...stored, gradients: gradientBytes === 2 ? 'bf16' : 'f32' }
}

/** So many turns more than are written out; undefined where it cannot be told what a turn does. */
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
