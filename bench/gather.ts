/**
 * Parameters of ZeRO-3 gathered by 4 ranks in int8 and in bf16 against f32: of steps of an mlp that has hardly a token, the seconds in
 * which a block is packed, gathered and unpacked. Losses agree to what 8 bits make of them.
 */
import { compileJob } from '../src/compile/index.js'
import { dataFor } from '../src/engine/index.js'
import { startEngine } from '../src/engine/native/index.js'
import type { Program } from '../src/ir/index.js'
import { Job, type PlanInput } from '../src/plan/index.js'
import type { Span } from '../src/trace/index.js'
import type { Options, Say } from './main.js'
import { type Contender, type Result, run } from './race.js'
import { showResults } from './report.js'

const ranks = 4
const plans = {
  f32: {},
  bf16: { compress: { gather: 'bf16' } },
  int8: { compress: { gather: 'int8' } },
} as const satisfies Readonly<Record<string, PlanInput>>

/** Bytes in f32 of what one block gathers: two square matrices. */
const sizes = [1, 4, 16, 64].map(megabytes => megabytes * 2 ** 20)

const jobOf = (bytes: number, plan: PlanInput): Job => {
  const width = 8 * Math.round(Math.sqrt(bytes / 8) / 8)
  return Job.parse({
    model: { family: 'mlp', layers: 2, embed: width, ffn: width },
    training: { seq: 1, globalBatch: ranks, optimizer: { kind: 'sgd', lr: 1e-3, momentum: 0 } },
    plan: { dp: ranks, zero: 3, overlap: false, ...plan },
  })
}

/** The steps of each gather of a block: what packs, gathers and unpacks, one behind the other. */
function gathersIn({ segments, streams }: Program): ReadonlySet<number>[] {
  const gathers: Set<number>[] = []
  let open: Set<number> | undefined
  for (const [at, step] of streams[0].steps.entries()) {
    if (step.kind !== 'call') continue
    const { phase, name } = segments[step.segment]
    if (phase !== 'gather' || !name.endsWith('layers')) {
      open = undefined
      continue
    }
    if (!open) gathers.push((open = new Set()))
    open.add(at)
  }
  return gathers
}

/** Of a step's gathers the fastest: from when the last rank has come to it until all ranks have everything. */
function secondsOf(gathers: readonly ReadonlySet<number>[], spans: readonly Span[]): number {
  const seconds = gathers.map(steps => {
    const [came, ended] = [new Float64Array(ranks).fill(Number.POSITIVE_INFINITY), new Float64Array(ranks)]
    for (const { rank, step, start, end } of spans) {
      if (!steps.has(step)) continue
      came[rank] = Math.min(came[rank], start)
      ended[rank] = Math.max(ended[rank], end)
    }
    return Math.max(...ended) - Math.max(...came)
  })
  return Math.min(...seconds)
}

async function contenderOf(name: string, bytes: number, plan: PlanInput) {
  const program = compileJob(jobOf(bytes, plan))
  const engine = await startEngine(program, { seed: 1, measure: true })
  const gathers = gathersIn(program)
  const data = dataFor(program, { steps: 1, seed: 1, lr: 0, vocab: 1 })
  const step = async () => engine.step({ inputs: data(0), lr: 0, step: 0 })
  const contender: Contender = {
    name,
    answer: async () => [(await step()).loss],
    time: async () => {
      await step()
      return secondsOf(gathers, engine.spans)
    },
  }
  return { contender, stop: () => engine.stop() }
}

export async function gather(say: Say, { rounds = 15, only = '' }: Options = {}): Promise<Result[]> {
  const results: Result[] = []
  const titleOf = (bytes: number) => `${ranks} ranks gather ${bytes / 2 ** 20} MiB of f32`
  for (const bytes of sizes.filter(size => titleOf(size).includes(only))) {
    const entered = []
    for (const [name, plan] of Object.entries(plans)) entered.push(await contenderOf(name, bytes, plan))
    const contenders = entered.map(({ contender }) => contender)
    const expected = await contenders[0].answer()
    const title = titleOf(bytes)
    results.push(await run({ title, expected, tolerance: 2e-2, contenders }, { rounds, warmups: 2 }))
    for (const { stop } of entered) await stop()
    say(`${title} done`)
  }
  return results
}

const versus = ['int8', 'bf16'].map(name => ({ name, peer: 'f32' }))

export const showGather = (results: readonly Result[]): string => showResults(results, versus)
