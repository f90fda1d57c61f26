/**
 * What a block takes is read off the block as it is compiled, for whatever plan it was compiled first: every phase has the seconds of the
 * program's own segment, however large the plan is that has the same structure.
 */
import { equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { choices, worldOf } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { tableOf } from '../src/estimate/book.js'
import { EstimateBook, placedOf, type Setup, timesOf } from '../src/estimate/index.js'
import { ofBlocks, ofRouted, type Structure, type TaskPhase } from '../src/estimate/own/structures.js'
import type { Task } from '../src/estimate/own/tasks.js'
import type { Collective, Program, Segment } from '../src/ir/index.js'
import { traitsOf } from '../src/ir/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { clusterPrices } from '../src/simulate/index.js'

const dense = { family: 'llama', layers: 2, embed: 1024, heads: 16, kvHeads: 4, ffn: 2816, vocab: 32000 } as const
const gpt = { family: 'gpt', layers: 2, embed: 768, heads: 12, vocab: 50304 } as const
const moe = { ...dense, experts: 16, topK: 2, moe: { ffn: 704, shared: 704, dense: 1 } } as const
const latent = {
  ...{ ...dense, kvHeads: 16 },
  mla: { qLoraRank: 384, kvLoraRank: 128, qkRopeHeadDim: 32, qkNopeHeadDim: 64, vHeadDim: 64 },
} as const
const fp8 = (recipe: 'current' | 'delayed' | 'blocks' | 'mx') => ({ fp8: { recipe } })

/** Each pair has one structure: the second is priced with what was compiled for the first. */
const pairs: readonly (readonly [string, JobInput['model'], JobInput['plan'], JobInput['plan']])[] = [
  ['dp', dense, { dp: 2, microbatches: 2 }, { dp: 8, microbatches: 4 }],
  ['learned positions', gpt, { tp: 2, dp: 2 }, { tp: 4, dp: 2, microbatches: 4 }],
  ['sp', dense, { tp: 2, sequenceParallel: true }, { tp: 4, sequenceParallel: true, microbatches: 2 }],
  ['few key-value heads', dense, { tp: 8 }, { tp: 16, microbatches: 2 }],
  ['ZeRO-2', gpt, { dp: 2, tp: 2, zero: 2, microbatches: 2 }, { dp: 4, tp: 2, zero: 2, microbatches: 4 }],
  ['gathered keys', dense, { cp: 2, tp: 2 }, { cp: 4, tp: 4, microbatches: 2 }],
  ['ulysses', dense, { cp: 2, attention: 'ulysses' }, { cp: 4, attention: 'ulysses', microbatches: 2 }],
  ['ring', dense, { cp: 4, attention: 'ring' }, { cp: 8, attention: 'ring', microbatches: 2 }],
  ['ring in order', dense, { cp: 4, attention: 'ring', zigzag: false }, { cp: 8, attention: 'ring', zigzag: false }],
  [
    'ring of ulysses',
    dense,
    { cp: 4, attention: { ulysses: 2, ring: 2 } },
    { cp: 16, attention: { ulysses: 2, ring: 8 } },
  ],
  ['ep', moe, { dp: 2, ep: 2 }, { dp: 4, ep: 4, microbatches: 2 }],
  ['ep over tp', moe, { tp: 2, ep: 2, sequenceParallel: true }, { tp: 4, ep: 4, sequenceParallel: true, dp: 2 }],
  ['ep over tp and dp', moe, { tp: 2, dp: 2, ep: 4 }, { tp: 2, dp: 4, ep: 8, microbatches: 2 }],
  ['etp', moe, { tp: 2, dp: 2, ep: 2, etp: 2 }, { tp: 2, dp: 4, ep: 4, etp: 2 }],
  ['ep over a ring', moe, { cp: 4, attention: 'ring', ep: 4 }, { cp: 8, attention: 'ring', ep: 8 }],
  ['latent attention', latent, { tp: 2, sequenceParallel: true }, { tp: 4, sequenceParallel: true, dp: 2 }],
  ['no overlap', dense, { tp: 2, overlap: false }, { tp: 4, overlap: false, microbatches: 2 }],
  ...(['current', 'delayed', 'blocks'] as const).map(
    recipe => [`fp8 ${recipe}`, dense, { tp: 2, ...fp8(recipe) }, { tp: 4, microbatches: 2, ...fp8(recipe) }] as const,
  ),
]

const phases: readonly TaskPhase[] = ['F', 'I', 'W', 'B', 'C']

/** The blocks of a program by the names that structures give them. */
function blocksOf({ blocks, segments }: Program): ReadonlyMap<keyof Structure, string> {
  const isRouted = (kind: string) => segments[`${kind}.F`].instrs.some(instr => instr.kind === 'rowsOf')
  const last = blocks.length - 1
  return new Map(
    blocks.map(({ kind }, at) => [
      at === 0 ? 'embedding' : at === last ? 'head' : isRouted(kind) ? 'routed' : 'plain',
      kind,
    ]),
  )
}

/** Seconds of work and of collectives. */
function ofSegment(segment: Segment, prices: ReturnType<typeof clusterPrices>) {
  let [work, meeting] = [0, 0]
  for (const instr of segment.instrs) {
    const { starts, finishes } = traitsOf(instr)
    if (starts) meeting += prices.collective(instr as Collective, segment).seconds
    else if (finishes === undefined) work += prices.compute(instr, segment)
  }
  return { work, meeting }
}

const jobWith = (
  model: JobInput['model'],
  plan: JobInput['plan'],
  recompute: 'none' | 'cheap' | 'selective' | 'full',
) =>
  Job.parse({
    ...{ model, training: { seq: 4096, globalBatch: 32 } },
    plan: { precision: 'bf16', recompute, ...plan },
  })

const setupOf = (job: Job, devices: number, book?: EstimateBook): Setup => ({
  ...placedOf(job)!,
  cluster: clusters.get(devices) ?? clusters.set(devices, clusterOf('h100', devices)).get(devices)!,
  ...(book && { book }),
})
const clusters = new Map<number, ReturnType<typeof clusterOf>>()

const worldOfJob = ({ plan }: Job) => plan.dp * plan.tp * plan.pp * plan.cp

for (const [title, model, first, second] of pairs)
  for (const recompute of ['none', 'selective', 'full'] as const)
    test(`${title}, recompute ${recompute}: every phase of ${JSON.stringify(second)} as its program has it`, () => {
      const [small, large] = [first, second].map(plan => jobWith(model, plan, recompute))
      const devices = 2 * worldOfJob(large) // of a pipeline
      const table = tableOf(setupOf(large, devices))
      for (const of of [ofBlocks, ofRouted]) table.structures.of(of(setupOf(small, devices)))
      // Backward passes are whole or in two: one program has the phases that the other lacks.
      for (const schedule of ['1f1b', 'zb-h1'] as const) {
        const plan = { ...second, pp: 2, schedule }
        const job = jobWith({ ...(model as object), layers: 4 } as JobInput['model'], plan, recompute)
        const program = compileJob(job)
        const prices = clusterPrices(program, clusterOf('h100', worldOf(program.mesh)))
        let compared = 0
        for (const [name, kind] of blocksOf(program)) {
          const setup = setupOf(large, devices)
          const split = name === 'routed' ? ofRouted(setup) : ofBlocks(setup)
          const tasks = table.structures.of(split)[name]
          ok(tasks, name)
          for (const phase of phases) {
            const adds = phase === 'W' || phase === 'B'
            const { microbatches } = adds ? split : program
            const sizes = table.structures.sizesOf({ ...split, microbatches })
            const segment = program.segments[`${kind}.${phase}`]
            if (!segment) continue
            const own = sumsOf(tasks[phase], instr => table.structures.costs.seconds(instr, sizes))
            const theirs = ofSegment(segment, prices)
            // A gradient that leaves at once is written, one that is added up need not be: some kernels of the least duration.
            const near = 2e-5 + 1e-9 * theirs.work
            const what = `${name} ${phase}: ${JSON.stringify(own)} for ${JSON.stringify(theirs)}`
            ok(
              Math.abs(own.work - theirs.work) <= (split.zero === 0 && second!.zero === 2 ? near : 1e-9 * theirs.work),
              what,
            )
            ok(Math.abs(own.meeting - theirs.meeting) <= 1e-9 * theirs.meeting, what)
            compared++
          }
        }
        ok(compared > 5)
      }
    })

function sumsOf(task: Task, seconds: (instr: Extract<Task[number], { kind: 'start' }>['instr']) => number) {
  let [work, meeting] = [0, 0]
  for (const item of task)
    if (item.kind === 'work') for (const instr of item.instrs) work += seconds(instr)
    else if (item.kind === 'start') meeting += seconds(item.instr)
  return { work, meeting }
}

const seed = Number(process.env.SEED ?? Date.now() % 1e6)
test(`what was priced before has no say in the price of a plan (SEED=${seed})`, () => {
  const { pick, shuffled } = {
    ...choices(seed),
    shuffled: (list: readonly Job[]) => [...list].sort(() => pick([-1, 1])),
  }
  const all = pairs.flatMap(([, model, first, second]) =>
    [first, second].map(plan => jobWith(model, plan, pick(['none', 'cheap', 'selective', 'full']))),
  )
  const alone = new Map(all.map(job => [job, timesOf(setupOf(job, worldOfJob(job))).step]))
  const books = new Map<unknown, EstimateBook>()
  for (const job of shuffled(all)) {
    const book = books.get(job.model) ?? new EstimateBook()
    books.set(job.model, book)
    equal(timesOf(setupOf(job, worldOfJob(job), book)).step, alone.get(job), JSON.stringify(job.plan))
  }
})
