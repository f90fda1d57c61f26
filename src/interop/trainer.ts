/** Arguments of the Hugging Face Trainer, which stand beside files of DeepSpeed and Accelerate. */
import type { Given } from './note.js'
import { booleanOf, numberOf, type Reading } from './reading.js'

/** Defaults of transformers 5. */
const usual: Readonly<Record<string, number>> = {
  ...{ per_device_train_batch_size: 8, gradient_accumulation_steps: 1, max_grad_norm: 1, learning_rate: 5e-5 },
  ...{ weight_decay: 0, adam_beta1: 0.9, adam_beta2: 0.999, adam_epsilon: 1e-8, warmup_steps: 0 },
}

export class Trainer {
  /** Whether anything was said: without it nobody knows that there is a Trainer. */
  readonly present: boolean
  readonly #given: Readonly<Record<string, unknown>>

  constructor({ trainer = {} }: Given) {
    this.#given = trainer
    this.present = Object.keys(trainer).length > 0
  }

  says(name: string): boolean {
    return this.#given[name] !== undefined
  }

  /** What was said, or the default of transformers. */
  number(name: string): number | undefined {
    return numberOf(this.#given[name]) ?? usual[name]
  }

  bool(name: string): boolean {
    return booleanOf(this.#given[name]) ?? false
  }

  word(name: string): string | undefined {
    const value = this.#given[name]
    return value === undefined ? undefined : String(value)
  }

  /** '5' as it was said, or '8 (the default of transformers 5)'. */
  show(name: string): string {
    return `${name} ${this.number(name)}${this.says(name) ? '' : ' (the default of transformers 5)'}`
  }

  get steps(): number | undefined {
    const steps = this.number('max_steps')
    return steps !== undefined && steps > 0 ? steps : undefined
  }

  /** Warm-up steps, of which a fraction may be said. */
  get warmup(): number {
    const ratio = numberOf(this.#given.warmup_ratio)
    const said = this.number('warmup_steps') ?? 0
    if (said >= 1 || !this.steps) return said >= 1 ? said : 0
    return Math.ceil(this.steps * (said > 0 ? said : (ratio ?? 0)))
  }
}

const optimizerNames = /^adamw/

/** AdamW and the schedule of the Trainer, for a file that leaves them to it. */
export function trainerOptimizer(r: Reading, trainer: Trainer): void {
  if (!trainer.present) return
  const note = (field: string, value: unknown, message: string) => r.assume('--trainer', field, value, message)
  const optim = trainer.word('optim') ?? 'adamw_torch'
  if (optimizerNames.test(optim))
    note(
      'training.optimizer',
      {
        kind: 'adamw',
        lr: trainer.number('learning_rate'),
        ...{ beta1: trainer.number('adam_beta1'), beta2: trainer.number('adam_beta2') },
        ...{ eps: trainer.number('adam_epsilon'), weightDecay: trainer.number('weight_decay') },
      },
      `AdamW of the Trainer, with ${trainer.show('learning_rate')} and ${trainer.show('weight_decay')}`,
    )
  else r.drop('--trainer optim', `the Trainer's ${optim} is not supported`)
  trainerSchedule(r, trainer)
}

export function trainerSchedule(r: Reading, trainer: Trainer): void {
  const kind = trainer.word('lr_scheduler_type') ?? 'linear'
  const known = { linear: 'linear', cosine: 'cosine', constant: 'constant', constant_with_warmup: 'constant' } as const
  if (!Object.hasOwn(known, kind)) {
    r.drop('--trainer lr_scheduler_type', `schedule ${kind} is not supported`)
    return
  }
  const { warmup } = trainer
  r.assume(
    '--trainer',
    'training.lrSchedule',
    { kind: known[kind as keyof typeof known], warmup, ...(warmup > 0 && { warmupFrom: 0 }), minLr: 0 },
    `${kind} schedule of the Trainer${trainer.says('lr_scheduler_type') ? '' : ' (the default of transformers 5)'}`,
  )
}

export function trainerSteps(r: Reading, trainer: Trainer): void {
  const { steps } = trainer
  if (steps !== undefined) r.carry('--trainer max_steps', 'training.steps', steps)
  const seed = trainer.number('seed')
  if (seed !== undefined) r.carry('--trainer seed', 'training.seed', seed)
}
