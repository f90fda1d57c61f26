/** lockstep demo, which `npm start` runs: a job predicted, trained on four ranks and compared with a single rank; then a plan for 512 GPUs. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { median, showBytes, showCount, showTime, table, worldOf } from '../../base/index.js'
import { calibration, inTurns, simulateOn } from '../../calibrate/index.js'
import { compileJob, serialJob } from '../../compile/index.js'
import { type Dataset, datasetOfIds } from '../../data/index.js'
import { type Kind, kinds, type Program } from '../../ir/index.js'
import { parametersOf } from '../../model/index.js'
import { thisHost } from '../../node/index.js'
import { Job } from '../../plan/index.js'
import { findingPlans } from '../../search/index.js'
import { peaksOf, type Session, startSession } from '../../train/index.js'
import type { Io } from '../io.js'
import { colorsOf } from '../text/colors.js'
import { type Compared, checksOf, comparedText, type Measured, shortLines } from '../text/demo-text.js'
import { type Display, displayOf } from '../text/display.js'
import { numberCells, numberHeader, planColumns } from '../text/plan-words.js'
import { planningOf } from '../text/planning.js'
import { Interrupted, withProgress } from '../text/progress.js'

const job = Job.parse({
  name: 'demo',
  model: { family: 'gpt', layers: 4, embed: 128, heads: 4, vocab: 256 },
  training: {
    ...{ seq: 128, globalBatch: 16, steps: 40, clip: 1 },
    optimizer: { kind: 'adamw', lr: 1e-3, beta2: 0.95, weightDecay: 0.1 },
    lrSchedule: { kind: 'cosine', warmup: 10, minLr: 1e-4 },
  },
  plan: { dp: 2, tp: 2, zero: 1 },
})

/** Steps that a single rank repeats. */
const repeated = 10
/** Turns of each probe that measures this machine. */
const rounds = 3

const large = { model: 'llama3-70b', cluster: 'h100', devices: 512, seq: 8192, globalBatch: 512 } as const

export interface DemoOptions {
  readonly json?: boolean
}

export async function demoCommand({ json = false }: DemoOptions, io: Io): Promise<number> {
  const { bold, green, red, dim } = colorsOf(io)
  const say = (text: string) => {
    if (!json) io.out(`${text}\n`)
  }
  const program = compileJob(job)
  const { dp, tp, zero } = job.plan
  say(
    bold(
      `GPT, ${showCount(parametersOf(job.model, job.training.seq))} parameters, on ${worldOf(program.mesh)} ranks of this machine: dp ${dp} x tp ${tp}, ZeRO-${zero}`,
    ),
  )
  const predicted = { bytes: planned(program), seconds: await predictedSeconds(program, io) }
  say(`predicted: ${showBytes(predicted.bytes)} per rank, ${showTime(predicted.seconds)} per step\n`)

  const data = ownSources()
  const trained = await trainedOn(job, program, data, { steps: job.training.steps, show: !json, io })
  const serial = serialJob(job)
  const single = await trainedOn(serial, compileJob(serial), data, { steps: repeated, show: false, io })
  const usable = Math.min(worldOf(program.mesh), thisHost().cores)
  const compared: Compared = { predicted, measured: trained, single, usable, asPlanned: trained.asPlanned }
  const checks = checksOf(compared)
  say(`\n${comparedText(compared, checks, { green, red })}\n`)

  const { request, best, text } = await largePlan(io)
  say(
    `${bold(`Llama 3 70B on ${large.devices} x ${request.cluster.device.title}, fastest plan of the cost model:`)}\n${text}\n`,
  )
  say(
    `${bold('Next')}${nextCommands.map(([command, what]) => `\n  npx lockstep ${command.padEnd(36)} ${dim(what)}`).join('')}`,
  )
  const ok = checks.memory && checks.loss
  if (json) {
    io.out(`${JSON.stringify({ ok, predicted, measured: trained, single, checks, plan: best }, null, 2)}\n`)
  }
  return ok ? 0 : 1
}

const nextCommands = [
  ['explain pretrain.sh --cluster h100', 'your Megatron script: memory, limits, advice'],
  ['train your-job.yaml', 'train your own text (lockstep init writes a job)'],
  ['studio', 'plan, run and learn in the browser'],
] as const

const sum = (peak: Readonly<Record<Kind, number>>): number => kinds.reduce((bytes, kind) => bytes + peak[kind], 0)
const most = (numbers: readonly number[]): number => Math.max(...numbers)

const planned = ({ streams }: Program): number => most(streams.map(({ peak }) => sum(peak)))

/** This machine is measured with small probes; the step is simulated with what they took. */
async function predictedSeconds(program: Program, io: Io): Promise<number> {
  const { starts, settled, cluster } = calibration(thisHost(), true)
  return withProgress(io, async progress => {
    const phase = 'measuring this machine'
    progress.expect({ [phase]: 1 })
    await progress.run(phase, inTurns(starts, rounds, settled))
    return simulateOn(program, cluster(worldOf(program.mesh))).step
  })
}

/** The bytes of Lockstep's own planner. */
function ownSources(): Dataset {
  const folder = fileURLToPath(new URL('../../../../src/plan', import.meta.url))
  const names = readdirSync(folder).filter(name => name.endsWith('.ts'))
  const bytes = Buffer.concat(names.sort().map(name => readFileSync(join(folder, name))))
  return datasetOfIds(new Uint8Array(bytes), { seq: job.training.seq, evalFraction: 0, name: 'src/plan' })
}

interface Training {
  readonly steps: number
  readonly show: boolean
  readonly io: Io
}

async function trainedOn(
  of: Job,
  program: Program,
  dataset: Dataset,
  { steps, show, io }: Training,
): Promise<Measured & { readonly asPlanned: boolean }> {
  const session = await startSession(of, dataset, { program, kernels: 'auto' })
  try {
    const display = show ? (io.terminal() ? displayOf(of, io, false) : shortLines(of, io)) : undefined
    const records = await stepped(session, steps, display, io)
    const { measured, wrong } = peaksOf(session)
    const settled = records.slice(2) // the first steps fill caches
    return {
      bytes: most(measured.map(sum)),
      losses: records.slice(0, repeated).map(({ loss }) => loss),
      seconds: median(settled.map(({ seconds }) => seconds)),
      cores: median(settled.map(({ cpu, seconds }) => (cpu === undefined ? Number.NaN : cpu / seconds))),
      asPlanned: wrong < 0,
    }
  } finally {
    await session.stop()
  }
}

async function stepped(session: Session, steps: number, display: Display | undefined, io: Io) {
  let stopped: number | undefined
  const forget = io.onInterrupt(code => {
    stopped = code
  })
  const records: Awaited<ReturnType<Session['step']>>[] = []
  try {
    while (records.length < steps) {
      const record = await session.step()
      records.push(record)
      display?.step(record, () => session.trainer.spans)
      await setImmediate() // an interrupt is heard here
      if (stopped !== undefined) throw new Interrupted(stopped)
    }
    return records
  } finally {
    forget()
    display?.finish()
  }
}

async function largePlan(io: Io) {
  const asked = { ...large, precision: 'bf16', software: 'lockstep', constraint: [] } as const
  const { request } = planningOf(asked, large.devices, io)
  const answer = await withProgress(io, progress => {
    const phase = `planning ${large.model} on ${large.devices} GPUs`
    progress.expect({ [phase]: 1 })
    return progress.run(phase, findingPlans(request, { top: 1, simulate: false, front: false }))
  })
  const [{ plan }] = answer.listed
  const { header, cells } = planColumns([plan.split])
  const text = table([...numberHeader, ...header], [[...numberCells(request, plan), ...cells(plan.split)]])
  return { request, text, best: { step: plan.estimate.step, bytes: plan.bytes } }
}
