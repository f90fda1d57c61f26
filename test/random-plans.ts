/**
 * Random plans of models of some billions of parameters on some tens of devices, from a seed: each compiled, simulated
 * and estimated. Layers are few, since one more adds nothing new; their widths are real ones.
 */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { choices, worldOf } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { capacityOf, type Estimate, estimate, placedOf, totalBytes } from '../src/estimate/index.js'
import { check, fp8Recipes, Job, type JobInput, scheduleFacts, scheduleNames, worldOfPlan } from '../src/plan/index.js'
import { clusterPrices, type Simulation, simulate } from '../src/simulate/index.js'

type Random = ReturnType<typeof choices>

export interface RandomPlan {
  readonly job: Job
  readonly device: string
}

function modelOf({ pick, chance }: Random) {
  const [embed, heads, kvHeads, ffn] = pick([
    [2048, 16, 8, 5632],
    [2048, 32, 4, 8192],
    [4096, 32, 8, 14336],
    [4096, 32, 32, 11008],
    [5120, 40, 8, 13824],
    [8192, 64, 8, 28672],
  ])
  const sizes = { layers: pick([4, 6, 8, 12, 16, 20]), embed, heads, vocab: pick([32000, 50304, 128256]) }
  const tied = chance(0.3)
  return chance(0.4)
    ? { family: 'gpt' as const, ...sizes, tied, dropout: pick([0, 0, 0.1]) }
    : { family: 'llama' as const, ...sizes, tied, kvHeads, ffn }
}

function planOf({ pick, chance, int }: Random) {
  const schedule = pick(scheduleNames)
  const tp = pick([1, 1, 2, 4, 8])
  const plan = {
    ...{ schedule, tp, pp: pick([1, 2, 2, 3, 4, 4, 6, 8]), dp: pick([1, 2, 2, 3, 4, 8]) },
    microbatches: pick([1, 2, 3, 4, 6, 8, 12, 16, 24]),
    ...(scheduleFacts[schedule].chunksFixed ? {} : { chunks: pick([2, 2, 3]) }),
    ...{ zero: int(4), reduce: pick(['microbatch', 'microbatch', 'step'] as const) },
    ...{ gather: pick(['use', 'use', 'step'] as const), prefetch: pick([1, 1, 2]) },
    ...(chance(0.2) ? { bucket: pick([1, 100, 1000]) * 2 ** 20 } : {}),
    ...(chance(0.25) ? { layers: { first: int(3), last: int(3) } } : {}),
    sequenceParallel: tp > 1 && chance(0.5),
    recompute: pick(['none', 'cheap', 'selective', 'full'] as const),
    precision: pick(['bf16', 'bf16', 'bf16', 'pure-bf16'] as const),
    gradients: pick([undefined, undefined, 'bf16', 'f32'] as const),
  }
  // The estimate does not know that W fetches the gains of norms once more (PLAN.md).
  const isUnknown = plan.recompute === 'cheap' && plan.zero === 3 && scheduleFacts[schedule].backward === 'split'
  const reduce = plan.microbatches % 12 === 0 && schedule !== 'dualpipe' ? ('int8' as const) : ('bf16' as const)
  const compress = { reduce, ...(plan.zero === 3 && { gather: 'int8' as const }) }
  const sent = plan.microbatches % 3 === 0 ? { ...plan, compress } : plan
  return isUnknown ? { ...sent, recompute: 'none' as const } : sent
}

/** Sequences that are cut are as many times as long. */
function contextOf({ pick, chance }: Random) {
  const [cp, zigzag] = [pick([1, 1, 1, 2, 2, 4, 8]), chance(0.8)]
  return cp > 1 ? { cp, zigzag } : { cp }
}

/** More are not simulated by the hundred. */
const mostDevices = 64

/** Experts, latent attention, or both; and how a split sequence meets itself, and who shares experts. */
function kindsOf({ pick, chance }: Random) {
  const latent = {
    qLoraRank: pick([undefined, 1536]),
    kvLoraRank: 512,
    qkRopeHeadDim: 64,
    qkNopeHeadDim: 128,
    vHeadDim: 128,
  }
  const [experts, topK, ffn] = pick([
    [8, 2, 7168],
    [16, 4, 2048],
    [64, 8, 1024],
  ])
  const moe = {
    ...{ experts, topK, ffn, dense: pick([0, 0, 1]), scores: pick(['softmax', 'sigmoid'] as const) },
    ...(chance(0.5) ? { shared: pick([1024, 2048]) } : {}),
  }
  const [routed, narrow] = pick([
    [true, false],
    [true, true],
    [false, true],
    [false, false],
  ])
  const attention = pick([
    'ring',
    'ring',
    'ulysses',
    { ulysses: 2, ring: 2 },
    { ulysses: 2, ring: 4 },
    'gather',
  ] as const)
  const cp = typeof attention === 'object' ? attention.ulysses * attention.ring : pick([2, 4, 8])
  const split = routed && chance(0.4) ? { cp: 1 } : { cp, attention }
  const shared = routed ? { ep: pick([2, 4, 8]), etp: pick([1, 1, 1, 2]), rows: pick([1, 2, 2]) } : {}
  return {
    model: { ...(routed && { moe }), ...(narrow && { mla: latent }) },
    plan: { ...split, ...shared },
  }
}

/** A plan of what not every model and not every plan has. */
function randomKind(random: Random): RandomPlan | undefined {
  const { pick } = random
  const [plain, plan, kinds] = [modelOf(random), planOf(random), kindsOf(random)]
  const isPlain = Object.keys(kinds.model).length === 0
  const { kvHeads: _, ...llama } = plain.family === 'llama' ? plain : { ...plain, kvHeads: 0 }
  if (!isPlain && plain.family === 'gpt') return undefined
  const model = isPlain ? plain : kinds.model.mla ? { ...llama, ...kinds.model } : { ...plain, ...kinds.model }
  const { cp } = kinds.plan
  const training = { seq: pick([1024, 2048, 4096]) * cp, globalBatch: plan.dp * plan.microbatches * pick([1, 1, 2]) }
  return runnable({ model, training, plan: { ...plan, ...kinds.plan } } as JobInput, pick(['h100', 'h100', 'a100'])) // the families were told apart
}

/** Undefined: it would not run. */
function randomPlan(random: Random): RandomPlan | undefined {
  const { pick } = random
  const [model, plan] = [modelOf(random), planOf(random)]
  const training = { seq: pick([1024, 2048, 4096]), globalBatch: plan.dp * plan.microbatches * pick([1, 1, 2, 4]) }
  const device = pick(['h100', 'h100', 'a100'])
  const context = contextOf(random)
  const input: JobInput = {
    model,
    training: { ...training, seq: training.seq * context.cp },
    plan: { ...plan, ...context },
  }
  return runnable(input, device)
}

/** Every fourth plan, where the device multiplies codes: the recipe goes by its ZeRO stage. */
function coded(input: JobInput, device: string): JobInput {
  const { pp = 1, zero = 0 } = input.plan ?? {}
  if (device !== 'h100' || pp % 3 > 0) return input
  return { ...input, plan: { ...input.plan, fp8: { recipe: fp8Recipes[zero % fp8Recipes.length] } } }
}

function runnable(input: JobInput, device: string): RandomPlan | undefined {
  const job = Job.safeParse(coded(input, device))
  if (!job.success || worldOfPlan(job.data.plan) > mostDevices) return undefined
  return check(job.data).some(({ severity }) => severity === 'error') ? undefined : { job: job.data, device }
}

/** `kinds`: with experts, latent attention, rings and exchanges. */
export function* randomPlans(seed: number, kinds = false): Generator<RandomPlan> {
  for (let draw = 0; ; draw++) {
    const plan = (kinds ? randomKind : randomPlan)(choices(seed * 1e6 + draw))
    if (plan) yield plan
  }
}

export interface ComparedPlan extends RandomPlan {
  readonly estimated: Estimate
  readonly simulated: Simulation
  /** The estimate over the program itself, less one. */
  readonly time: number
  readonly memory: number
}

/** Undefined: it does not fit its devices. */
export function compared({ job, device }: RandomPlan): ComparedPlan | undefined {
  const cluster = clusterOf(device, worldOfPlan(job.plan))
  const placed = placedOf(job)!
  const estimated = estimate({ ...placed, cluster })
  // What is far too large need not be compiled to know it.
  if (totalBytes(estimated.memory) > 2 * capacityOf(cluster.device)) return undefined
  const program = compileJob(job)
  const simulated = simulate(program, clusterPrices(program, clusterOf(device, worldOf(program.mesh))), { watch: [] })
  if (simulated.memory.arena > capacityOf(cluster.device)) return undefined
  const [time, memory] = [
    estimated.step / simulated.step - 1,
    totalBytes(estimated.memory) / simulated.memory.arena - 1,
  ]
  return { job, device, estimated, simulated, time, memory }
}

/** So many that fit. */
export function comparedPlans(seed: number, count: number, kinds = false): ComparedPlan[] {
  const plans: ComparedPlan[] = []
  for (const plan of randomPlans(seed, kinds)) {
    const one = compared(plan)
    if (one) plans.push(one)
    if (plans.length === count) break
  }
  return plans
}

/** Mean and worst of some errors. */
export function spread(errors: readonly number[]): { readonly mean: number; readonly worst: number } {
  const sizes = errors.map(Math.abs)
  return { mean: sizes.reduce((a, b) => a + b, 0) / sizes.length, worst: Math.max(...sizes) }
}

const percent = (share: number): string => `${(100 * share).toFixed(2)} %`

/** Tests that the estimate of such plans is as near to their simulation as it is said to be. */
export function staysWithinLimits(plans: readonly ComparedPlan[], title: string, seed: number): void {
  for (const [what, mean, worst] of [
    ['time', 0.015, 0.12],
    ['memory', 0.02, 0.1],
  ] as const)
    test(`${title}: ${what} of the estimate within ${percent(mean)} on average and ${percent(worst)} at the worst (SEED=${seed})`, () => {
      const found = spread(plans.map(plan => plan[what]))
      const farthest = plans.reduce((a, b) => (Math.abs(b[what]) > Math.abs(a[what]) ? b : a))
      const text = `mean ${percent(found.mean)}, worst ${percent(found.worst)}: ${JSON.stringify(farthest.job)} on ${farthest.device}`
      ok(found.mean <= mean && found.worst <= worst, text)
    })
}
