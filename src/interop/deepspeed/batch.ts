/** train_batch_size T = train_micro_batch_size_per_gpu M x gradient_accumulation_steps G x dp, with DeepSpeed's floors. */
import type { Given } from '../note.js'
import type { Reading } from '../reading.js'
import type { Trainer } from '../trainer.js'

export const batchKeys = {
  total: 'train_batch_size',
  micro: 'train_micro_batch_size_per_gpu',
  steps: 'gradient_accumulation_steps',
} as const

interface Batch {
  readonly total?: number | undefined
  readonly micro?: number | undefined
  readonly steps?: number | undefined
}

/** Ranks that share the layers and the sequence of one copy of the model. */
export interface Inner {
  readonly tp: number
  readonly sp: number
}

export function readBatch(r: Reading, given: Given, trainer: Trainer, inner: Inner): void {
  const said = saidOf(r, trainer)
  if (r.refused) return
  const dp = dataRanks(r, given, inner, said)
  if (dp === undefined) return
  r.world = dp * inner.tp * inner.sp
  const batch = solved(said, dp)
  if (!batch) {
    const keys = Object.values(batchKeys)
    r.refuse(
      keys[0],
      `one of ${keys.slice(0, 2).join(' and ')} is required: the other settings do not determine the batch`,
    )
    return
  }
  const { total, micro, steps } = batch
  if (total !== micro * steps * dp || micro < 1 || steps < 1) {
    r.refuse(batchKeys.total, unequal(said, batch, dp))
    return
  }
  const equation = `train_batch_size ${total} = ${batchKeys.micro} ${micro} x ${batchKeys.steps} ${steps} x dp ${dp}`
  if (r.has(batchKeys.total)) r.carry(batchKeys.total, 'training.globalBatch', total, equation)
  else r.derive(batchKeys.micro, 'training.globalBatch', total, equation)
  if (r.has(batchKeys.steps)) r.carry(batchKeys.steps, 'plan.microbatches', steps)
  else r.derive(batchKeys.steps, 'plan.microbatches', steps, equation)
  if (r.has(batchKeys.micro)) r.derive(batchKeys.micro, 'plan.microbatches', steps, equation)
}

/** The three numbers, with `auto` as the Trainer has it. */
function saidOf(r: Reading, trainer: Trainer): Batch {
  const known = { micro: 'per_device_train_batch_size', steps: 'gradient_accumulation_steps' } as const
  const of = (name: keyof typeof known): number | undefined => {
    const key = batchKeys[name]
    if (r.raw(key) !== 'auto') return fileNumber(r, key, trainer, known[name])
    if (trainer.present) return trainer.number(known[name])
    r.refuse(key, `auto: the Trainer sets it: --trainer ${known[name]}=8`)
    return undefined
  }
  const [micro, steps] = [of('micro'), of('steps')]
  if (r.raw(batchKeys.total) !== 'auto') return { total: fileNumber(r, batchKeys.total, trainer), micro, steps }
  if (!trainer.present) r.refuse(batchKeys.total, 'auto: the Trainer sets it: --trainer per_device_train_batch_size=8')
  return { micro: micro ?? trainer.number(known.micro), steps: steps ?? trainer.number(known.steps) }
}

/** A number of the file, which must be that of the Trainer: text that spells it is not. */
export function fileNumber(r: Reading, key: string, trainer: Trainer, name?: string): number | undefined {
  const raw = r.raw(key)
  const number = r.whole(key, 1)
  if (number === undefined || !trainer.present || name === undefined) return number
  const wanted = trainer.number(name)
  if (typeof raw === 'string')
    r.refuse(
      key,
      `the Trainer compares "${raw}", a string, with ${name} ${wanted}, and refuses: write it without quotes`,
    )
  else if (wanted !== number && trainer.says(name))
    r.refuse(key, `${number} is not ${name} ${wanted} of the Trainer, which refuses that`)
  else if (wanted !== number) r.drop('--trainer', `the Trainer requires ${name}=${number}, as in the file`)
  return number
}

function dataRanks(
  r: Reading,
  { world }: Given,
  { tp, sp }: Inner,
  { total, micro, steps }: Batch,
): number | undefined {
  const inner = tp * sp
  const product = `${tp > 1 ? ` x tp ${tp}` : ''}${sp > 1 ? ` x sequence ranks ${sp}` : ''}`.replace(/^ x /, '')
  if (world !== undefined) {
    const dp = world / inner
    if (Number.isInteger(dp)) {
      if (inner > 1) r.derive('tensor_parallel', 'plan.dp', dp, `dp ${dp} = world ${world} / ${product}`)
      else r.assume('--devices', 'plan.dp', dp, `dp ${dp} = world ${world}`)
      return dp
    }
    r.refuse(
      tp > 1 ? 'tensor_parallel.autotp_size' : 'sequence_parallel_size',
      `${product} does not divide world ${world}`,
    )
    return undefined
  }
  if (total === undefined || micro === undefined || steps === undefined) {
    r.refuse(batchKeys.total, 'the world size is not in the file: set --devices')
    return undefined
  }
  const dp = total / (micro * steps)
  if (Number.isInteger(dp)) {
    r.derive(
      batchKeys.total,
      'plan.dp',
      dp,
      `dp ${dp} = train_batch_size ${total} / (micro ${micro} x accumulation ${steps})`,
    )
    return dp
  }
  r.refuse(
    batchKeys.total,
    `${total} is not a multiple of micro ${micro} x accumulation ${steps}: no number of ranks fits`,
  )
  return undefined
}

/** As DeepSpeed fills in what is missing; whether the equation holds is another question. */
function solved({ total, micro, steps }: Batch, dp: number): Required<{ [K in keyof Batch]: number }> | undefined {
  if (total !== undefined && micro !== undefined)
    return { total, micro, steps: steps ?? Math.floor(Math.floor(total / micro) / dp) }
  if (total !== undefined) return { total, steps: steps ?? 1, micro: Math.floor(Math.floor(total / dp) / (steps ?? 1)) }
  if (micro !== undefined) return { total: micro * (steps ?? 1) * dp, micro, steps: steps ?? 1 }
  return undefined
}

/** Which of the numbers would have to be another one. */
function unequal(
  said: Batch,
  { total, micro, steps }: { total: number; micro: number; steps: number },
  dp: number,
): string {
  const fits = [
    said.micro !== undefined && said.steps !== undefined ? `${batchKeys.total} ${micro * steps * dp}` : '',
    said.steps === undefined ? '' : whole(batchKeys.micro, total / (steps * dp)),
    said.micro === undefined ? '' : whole(batchKeys.steps, total / (micro * dp)),
    said.micro === undefined || said.steps === undefined
      ? nearDivisors(total / (said.micro ?? said.steps ?? 1), dp)
      : whole('dp', total / (micro * steps)),
  ].filter(text => text !== '')
  return `${total} is not ${micro} x ${steps} x ${dp} (micro x accumulation x dp) = ${micro * steps * dp}; it would fit with ${fits.join(', or ')}`
}

const whole = (name: string, value: number): string => (Number.isInteger(value) && value > 0 ? `${name} ${value}` : '')

/** The numbers of data ranks nearest to the one there is. */
function nearDivisors(product: number, dp: number): string {
  if (!Number.isInteger(product) || product < 1) return ''
  const near = (from: number, step: 1 | -1) =>
    Array.from({ length: 4096 }, (_, i) => from + step * i).find(n => n > 0 && product % n === 0)
  const least = near(Math.min(dp, product), -1) ?? 1
  const above = dp < product ? near(dp + 1, 1) : undefined
  return `dp ${least}${above === undefined || above === least ? '' : ` or ${above}`}`
}
