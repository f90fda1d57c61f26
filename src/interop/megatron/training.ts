/** Steps, the optimizer and the learning rate over the steps. */
import { type Batch, stepsOf } from './batch.js'
import type { Terms } from './terms.js'

export function readTraining(t: Terms, batch: Batch): void {
  const steps = readSteps(t, batch)
  readOptimizer(t)
  readRate(t, batch, steps)
  readClip(t)
  const seed = Number(t.word('seed') ?? t.defaults.value('seed'))
  if (t.has('seed') && Number.isInteger(seed)) t.carry('seed', 'training.seed', seed)
  else if (t.has('seed')) t.drop('seed', `${t.word('seed')}: it is random at each run of the script`)
  else t.usual('seed', 'training.seed')
}

export function readSequence(t: Terms): number | undefined {
  const term = ['seq-length', 'max-length'].find(one => t.has(one)) ?? 'seq-length'
  const seq = t.whole(term, 1)
  if (seq === undefined) t.reading.missing('training.seq', `${t.path('seq-length')} is not in the file`)
  else t.carry(term, 'training.seq', seq)
  return seq
}

function readSteps(t: Terms, batch: Batch): number | undefined {
  const steps = t.whole('train-iters', 1)
  if (steps !== undefined) {
    t.carry('train-iters', 'training.steps', steps)
    t.read('train-samples', 'train-tokens')
    return steps
  }
  const term = t.has('train-samples') ? 'train-samples' : 'train-tokens'
  const samples = samplesOf(t, term)
  if (samples === undefined || batch.global === undefined) {
    t.reading.missing('training.steps', `${t.path('train-iters')} is not in the file`)
    return undefined
  }
  const found = stepsOf(batch, samples)
  const grown = batch.ramp.length > 0 ? ', counted while the batch grows' : ''
  t.derive(term, 'training.steps', found, `${found} = ${samples} sequences / global batch ${batch.global}${grown}`)
  return found
}

/** Sequences, where a number of sequences or of tokens is given. */
function samplesOf(t: Terms, term: string): number | undefined {
  const count = t.number(term)
  const seq = Number(t.reading.field('training.seq'))
  return count !== undefined && term.endsWith('tokens') ? (seq > 0 ? Math.floor(count / seq) : undefined) : count
}

function readOptimizer(t: Terms) {
  const kind = t.word('optimizer') ?? String(t.defaults.value('optimizer') ?? 'adam')
  const field = (name: string) => `training.optimizer.${name}`
  if (/^(fused|cpu_|cpu_torch_)?adamw?$/i.test(kind)) {
    t.reading.set(field('kind'), 'adamw')
    t.numeric('adam-beta1', field('beta1'))
    t.numeric('adam-beta2', field('beta2'))
    t.numeric('adam-eps', field('eps'))
    t.read('optimizer')
  } else if (kind === 'sgd') {
    t.carry('optimizer', field('kind'), 'sgd')
    t.numeric('sgd-momentum', field('momentum'))
  } else if (/^(dist_)?muon$/i.test(kind)) {
    t.carry('optimizer', field('kind'), 'muon')
    t.numeric('muon-momentum', field('momentum'))
  } else return t.refuse('optimizer', `${kind}: supported are adamw, sgd, muon, lamb, lion and adafactor`)
  t.numeric('weight-decay', field('weightDecay'))
  const lr = t.number('lr')
  if (lr === undefined) t.reading.missing(field('lr'), `${t.path('lr')} is not in the file`)
  else t.carry('lr', field('lr'), lr)
  if (t.is('do-layernorm-bias-weight-decay'))
    t.carry('do-layernorm-bias-weight-decay', 'training.paramGroups', {
      norm: { weightDecay: 1 },
      bias: { weightDecay: 1 },
    })
}

const kinds: Readonly<Record<string, string>> = {
  ...{ constant: 'constant', linear: 'linear', cosine: 'cosine', 'inverse-square-root': 'inverse-sqrt', WSD: 'wsd' },
}

function readRate(t: Terms, batch: Batch, steps: number | undefined): void {
  const field = (name: string) => `training.lrSchedule.${name}`
  const kind = t.choice('lr-decay-style', kinds, 'the learning rate stays constant')
  const usual = t.defaults.value('lr-decay-style')
  if (kind !== undefined) t.carry('lr-decay-style', field('kind'), kind)
  else if (t.has('lr-decay-style')) t.reading.set(field('kind'), 'constant')
  else if (usual === undefined) t.reading.missing(field('kind'), `${t.path('lr-decay-style')} is not in the file`)
  else t.reading.assume(t.path('lr-decay-style'), field('kind'), usual, `the default of ${t.defaults.of}`)
  const min = t.number('min-lr')
  if (min !== undefined) t.carry('min-lr', field('minLr'), min)
  else t.usual('min-lr', field('minLr'))
  const lr = Number(t.reading.field('training.optimizer.lr'))
  if (min !== undefined && min > lr) t.drop('min-lr', `min-lr ${min} > lr ${lr}: Megatron would not start`)
  const decay = readDecay(t, batch, steps)
  readWarmup(t, batch, decay ?? steps)
  readCooldown(t, batch)
}

/** A number of steps that may be written in steps, sequences or tokens. */
function stepsIn(t: Terms, stem: string, batch: Batch): { term: string; steps: number } | undefined {
  const iters = t.whole(`${stem}-iters`)
  if (iters !== undefined) return { term: `${stem}-iters`, steps: iters }
  const term = [`${stem}-samples`, `${stem}-tokens`].find(one => (t.number(one) ?? 0) > 0)
  const samples = term === undefined ? undefined : samplesOf(t, term)
  return term === undefined || samples === undefined || batch.global === undefined
    ? undefined
    : { term, steps: stepsOf(batch, samples) }
}

function readDecay(t: Terms, batch: Batch, steps: number | undefined): number | undefined {
  const decay = stepsIn(t, 'lr-decay', batch)
  t.read('lr-decay-iters', 'lr-decay-samples', 'lr-decay-tokens')
  if (!decay || decay.steps < 1) return undefined
  if (decay.steps === steps && decay.term.endsWith('iters')) return decay.steps
  const relation = steps === undefined ? '' : ` of ${steps} steps`
  t.derive(
    decay.term,
    'training.lrSchedule.decaySteps',
    decay.steps,
    `the rate falls until step ${decay.steps}${relation}`,
  )
  return decay.steps
}

function readWarmup(t: Terms, batch: Batch, decay: number | undefined) {
  const field = 'training.lrSchedule.warmup'
  const share = t.number('lr-warmup-fraction')
  const counted = stepsIn(t, 'lr-warmup', batch)
  t.read('lr-warmup-iters', 'lr-warmup-samples', 'lr-warmup-tokens', 'lr-warmup-fraction')
  if (share !== undefined && decay === undefined)
    return t.drop('lr-warmup-fraction', 'the number of steps is not in the file')
  const steps = share !== undefined && decay !== undefined ? Math.round(share * decay) : counted?.steps
  if (steps === undefined) {
    t.usual('lr-warmup-iters', field)
    return
  }
  if (share !== undefined) t.derive('lr-warmup-fraction', field, steps, `${steps} = ${share} of ${decay} steps`)
  else if (counted?.term.endsWith('iters')) t.carry(counted.term, field, steps)
  else if (counted) t.derive(counted.term, field, steps, `${steps} steps`)
  if (steps > 0) t.reading.set('training.lrSchedule.warmupFrom', t.number('lr-warmup-init') ?? 0)
  t.read('lr-warmup-init')
}

function readCooldown(t: Terms, batch: Batch): void {
  if (t.reading.field('training.lrSchedule.kind') !== 'wsd') return
  const cooldown = stepsIn(t, 'lr-wsd-decay', batch)
  if (cooldown) t.carry(cooldown.term, 'training.lrSchedule.cooldown', cooldown.steps)
  const shapes = { exponential: 'exponential', linear: 'linear', cosine: 'cosine', minus_sqrt: 'minus-sqrt' }
  const shape = t.choice('lr-wsd-decay-style', shapes, 'the rate falls exponentially')
  t.carry('lr-wsd-decay-style', 'training.lrSchedule.cooldownShape', shape ?? 'exponential')
}

/** 0 is none. */
function readClip(t: Terms): void {
  const clip = t.number('clip-grad')
  if (clip === undefined) t.usual('clip-grad', 'training.clip')
  else if (clip > 0) t.carry('clip-grad', 'training.clip', clip)
  else t.carry('clip-grad', 'training.clip', undefined, '0: gradients are not clipped')
}
