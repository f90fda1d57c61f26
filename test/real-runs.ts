/** Runs of the engine that are ill, or healthy, as they are: trained here, written down as `train` does, and read by `diagnose`. */
import { FaultBook, parseFaults } from '../src/base/index.js'
import { timesObserver } from '../src/calibrate/index.js'
import { cursorAt, type Dataset } from '../src/data/index.js'
import { diagnose, type Patient } from '../src/doctor/index.js'
import { type EventKind, type HealthEvent, runFormat, type StepLine, stepOf } from '../src/health/index.js'
import { thisHost } from '../src/node/index.js'
import { Job, type JobInput, worldOfPlan } from '../src/plan/index.js'
import { openData, startSession, train } from '../src/train/index.js'
import { memoryIo } from './memory-io.js'

export interface RealRun {
  readonly model?: object
  readonly training?: object
  readonly plan?: object
  /** The text it is trained on, or the synthetic task. */
  readonly text?: string
  readonly faults?: readonly string[]
  /** Milliseconds that a sample takes to be read. */
  readonly slowData?: number
  readonly cluster?: Patient['cluster']
}

const small = {
  model: { family: 'gpt', layers: 4, embed: 128, heads: 4, vocab: 256 },
  training: { seq: 64, globalBatch: 8, steps: 40, evalBatches: 0, optimizer: { kind: 'adamw', lr: 1e-3 } },
  plan: { dp: 2, precision: 'f32', microbatches: 2 },
}

export async function patientOf(run: RealRun): Promise<Patient> {
  const job = Job.parse({
    model: { ...small.model, ...run.model },
    training: { ...small.training, ...run.training },
    plan: { ...small.plan, ...run.plan },
    ...(run.text !== undefined && { data: { source: 'text.txt', evalFraction: 0 } }),
  } as JobInput)
  const opened = await openData(job, memoryIo({ 'text.txt': run.text ?? '' }).io)
  const dataset = run.slowData === undefined ? opened.dataset : slowed(opened.dataset, run.slowData)
  const faults = run.faults && new FaultBook(parseFaults(run.faults).faults)
  const session = await startSession(job, dataset, { faults, measure: true })
  const { program } = session
  const [lines, events, times] = [[] as StepLine[], [] as HealthEvent[], timesObserver(program)]
  try {
    for await (const { events: told = [], ...record } of train(session)) {
      const at = { step: record.step, fingerprint: dataset.fingerprint }
      lines.push(stepOf(JSON.parse(JSON.stringify({ ...record, cursor: cursorAt(dataset.train, job.training, at) })))!)
      events.push(...told)
      times.add(session.trainer.spans)
    }
  } catch (e) {
    if (lines.length === 0) throw e // a run that ends early is one of those that are looked at
  } finally {
    await session.stop()
  }
  const info = {
    ...({ format: runFormat, run: 'real', started: '', software: 'engine', host: '' } as const),
    ...{ world: worldOfPlan(job.plan), kernels: session.kernels, cores: thisHost().cores },
  }
  const read = { path: 'run', info, job, steps: lines, events, flight: undefined }
  return { run: read, job, program, times: times.times(), ...(run.cluster && { cluster: run.cluster }) }
}

function slowed(dataset: Dataset, milliseconds: number): Dataset {
  const { train } = dataset
  const write: typeof train.write = (input, sample, into) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)
    train.write(input, sample, into)
  }
  return { ...dataset, train: { ...train, write } }
}

/** Notes are no complaints. */
export const foundIn = async (run: RealRun): Promise<HealthEvent[]> => [...diagnose(await patientOf(run)).findings]

const text = (of: (i: number) => string, parts: number): string =>
  Array.from({ length: parts }, (_, i) => of(i)).join('')
const page = 'The ranks of a mesh meet in collectives; who comes last is waited for. '.padEnd(128, '.')

export const sickRuns: Readonly<Record<string, readonly [EventKind, RealRun]>> = {
  straggler: ['straggler', { faults: ['slow:rank=1,factor=1.5'] }],
  'divergence by lr': ['diverges', { training: { optimizer: { kind: 'adamw', lr: 0.3 }, steps: 60 } }],
  'scaler at its minimum': [
    'scaleStuck',
    { plan: { precision: 'f16' }, training: { lossScale: { kind: 'megatron', initial: 64, min: 64 }, steps: 50 } },
  ],
  'scaler that grows too often': [
    'scaleStuck',
    { plan: { precision: 'f16' }, training: { lossScale: { kind: 'torch', interval: 1 }, steps: 90 } },
  ],
  'imbalanced experts': [
    'imbalance',
    {
      model: { family: 'llama', kvHeads: 4, ffn: 256, moe: { experts: 16, topK: 1, ffn: 128 } },
      training: { optimizer: { kind: 'adamw', lr: 0.01 } },
    },
  ],
  'data loader bound': ['dataLoader', { slowData: 4 }],
  'repeated data': ['dataRepeats', { text: text(() => page, 400), training: { seq: 128, steps: 30 } }],
  'bubble bound': ['bubble', { plan: { dp: 1, pp: 2, microbatches: 1 } }],
  'one layer too many': [
    'imbalance',
    { model: { layers: 8 }, plan: { dp: 1, pp: 2, microbatches: 8, layers: [5, 3] } },
  ],
}

const words = 'mesh rank axis plan step loss norm layer batch token expert stage bubble flight'.split(' ')
const prose = text(i => `${words[(i * 7 + (i >> 3)) % 14]} ${i} ${words[(i * 5 + (i >> 2)) % 14]}, `, 6000)

export const healthyRuns: Readonly<Record<string, RealRun>> = {
  'dp 2': {},
  'tp 2': { plan: { dp: 1, tp: 2 } },
  'pp 2': { plan: { dp: 1, pp: 2, microbatches: 8 } },
  'one rank': { plan: { dp: 1 } },
  'text, zero 1': { text: prose, plan: { zero: 1 }, training: { seq: 64 } },
  'f16, torch scaler': { plan: { precision: 'f16' }, training: { lossScale: { kind: 'torch' }, steps: 60 } },
  experts: {
    model: { family: 'llama', kvHeads: 4, ffn: 256, moe: { experts: 4, topK: 2, ffn: 128, bias: 0.01 } },
  },
}
