/** Sequences: of a microbatch, of a step, and of the steps before the batch has grown. */
import type { Mesh } from './mesh.js'
import type { Terms } from './terms.js'

export interface Batch {
  /** Sequences of a step, in the end. */
  readonly global?: number
  readonly micro?: number
  /** Smaller steps before: so many sequences a step until so many were seen. */
  readonly ramp: readonly Step[]
}

interface Step {
  readonly globalBatch: number
  readonly until: number
}

export function readBatch(t: Terms, { dp }: Mesh, seq: number | undefined): Batch {
  const term = t.has('micro-batch-size') ? 'micro-batch-size' : t.has('batch-size') ? 'batch-size' : 'micro-batch-size'
  const micro = t.whole(term, 1)
  if (micro === undefined) t.reading.missing('plan.microbatches', `${t.path('micro-batch-size')} is not in the file`)
  const stepped = readSchedule(t, seq)
  const given = t.whole('global-batch-size', 1)
  const global = given ?? stepped?.global ?? (micro !== undefined && dp !== undefined ? micro * dp : undefined)
  if (global === undefined) return { ramp: [], ...(micro !== undefined && { micro }) }
  if (given !== undefined) t.carry('global-batch-size', 'training.globalBatch', given)
  else if (!stepped) t.derive(term, 'training.globalBatch', global, `not set: ${term} ${micro} x dp ${dp} = ${global}`)
  else t.reading.set('training.globalBatch', global)
  if (micro === undefined || dp === undefined) {
    if (micro !== undefined) t.read(term)
    return { global, ramp: [] }
  }
  const ramp = stepped && given === undefined ? stepped.ramp : readRamp(t, global)
  cutBatch(t, term, { global, micro, dp })
  writeRamp(t, ramp, micro * dp, stepped && given === undefined ? 'step-batch-size-schedule' : 'rampup-batch-size')
  return { global, micro, ramp }
}

function cutBatch(t: Terms, term: string, { global, micro, dp }: { global: number; micro: number; dp: number }): void {
  const once = micro * dp
  if (global % once !== 0) {
    const path = t.has('global-batch-size') ? 'global-batch-size' : term
    t.refuse(path, `global batch ${global} % (micro batch ${micro} x dp ${dp} = ${once}) = ${global % once}, must be 0`)
    return
  }
  const microbatches = global / once
  t.derive(
    term,
    'plan.microbatches',
    microbatches,
    `${microbatches} = global batch ${global} / (micro batch ${micro} x dp ${dp})`,
  )
}

/** Megatron's three numbers: the first batch, by how much it grows, and over how many sequences. */
function readRamp(t: Terms, global: number): Step[] {
  const numbers = t.list('rampup-batch-size')?.map(one => Number(String(one).replaceAll('_', '')))
  if (!numbers || numbers.length === 0) return []
  const [start = 0, by = 0, samples = 0] = numbers
  const turns = (global - start) / by
  if (
    numbers.length !== 3 ||
    !numbers.every(one => Number.isInteger(one) && one > 0) ||
    !Number.isInteger(turns) ||
    turns < 0
  ) {
    t.refuse(
      'rampup-batch-size',
      `expected start, increment and samples, and (global batch ${global} - start) % increment = 0`,
    )
    return []
  }
  if (turns > 10_000) return []
  return Array.from({ length: turns }, (_, i) => ({
    globalBatch: start + i * by,
    until: Math.ceil(((i + 1) * samples) / turns),
  }))
}

/** As many steps as a job may have. */
const mostSteps = 1024

function writeRamp(t: Terms, ramp: readonly Step[], once: number, term: string) {
  if (ramp.length === 0) return t.read('rampup-batch-size')
  const odd = ramp.find(({ globalBatch }) => globalBatch % once !== 0)
  if (ramp.length > mostSteps)
    t.drop(
      term,
      `the batch grows ${ramp.length} times, from ${ramp[0]?.globalBatch}; a job has at most ${mostSteps}: all steps are of the last size`,
    )
  else if (odd)
    t.drop(
      term,
      `${odd.globalBatch} sequences are not a multiple of micro batch x dp = ${once}; all steps are of the last size`,
    )
  else t.derive(term, 'training.batchRamp', ramp, `${ramp.length} smaller batches before`)
}

/** `0:384 200B:768 400B:1152`: from so many tokens on, so many sequences. */
function readSchedule(t: Terms, seq: number | undefined): { global: number; ramp: Step[] } | undefined {
  const text = t.list('step-batch-size-schedule')?.join(' ')
  if (!text) return undefined
  if (t.has('global-batch-size')) {
    t.drop('step-batch-size-schedule', 'Megatron rejects it together with --global-batch-size, which is used')
    return undefined
  }
  const steps = text
    .split(/[\s,]+/)
    .filter(one => one !== '')
    .map(stepOf)
  const last = steps.at(-1)
  if (!last || steps.some(one => one === undefined)) {
    t.refuse('step-batch-size-schedule', 'expected steps such as 0:384 200B:768')
    return undefined
  }
  const ramp = steps.slice(0, -1).map((one, i) => ({
    globalBatch: one?.globalBatch ?? 0,
    until: Math.ceil((steps[i + 1]?.from ?? 0) / (seq ?? 1)),
  }))
  if (ramp.length === 0)
    t.carry('step-batch-size-schedule', 'training.globalBatch', last.globalBatch, 'one size throughout')
  return { global: last.globalBatch, ramp }
}

const units: Readonly<Record<string, number>> = { '': 1, K: 1e3, M: 1e6, B: 1e9, T: 1e12 }

function stepOf(text: string): { from: number; globalBatch: number } | undefined {
  const [, from, unit = '', batch] = /^([\d.]+)([KMBT]?):(\d+)$/i.exec(text) ?? []
  const scale = units[unit.toUpperCase()]
  if (from === undefined || scale === undefined || !Number.isFinite(Number(from))) return undefined
  return { from: Number(from) * scale, globalBatch: Number(batch) }
}

/** Steps that see so many sequences, batch by batch as it grows. */
export function stepsOf({ global = 1, ramp }: Batch, samples: number): number {
  let [steps, seen] = [0, 0]
  for (const { globalBatch, until } of ramp) {
    const turns = Math.max(0, Math.ceil((Math.min(until, samples) - seen) / globalBatch))
    steps += turns
    seen += turns * globalBatch
  }
  return steps + Math.max(0, Math.floor((samples - seen) / global))
}
