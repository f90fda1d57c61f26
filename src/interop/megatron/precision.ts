/** Numbers: what is computed in, what gradients are summed in, the loss scale, and what is computed again. */
import { unknownValue } from '../reading.js'
import type { Terms } from './terms.js'

export function readPrecision(t: Terms) {
  const bf16 = t.is('bf16')
  const fp16 = t.is('fp16')
  if (bf16 && fp16) return t.refuse('fp16', 'it excludes bf16')
  if (bf16) t.carry('bf16', 'plan.precision', 'bf16')
  else if (fp16) t.carry('fp16', 'plan.precision', 'f16')
  else {
    const usual = t.defaults.value('precision')
    if (usual === undefined) t.reading.missing('plan.precision', 'the file does not set the precision')
    else
      t.reading.assume(
        t.path('bf16'),
        'plan.precision',
        usual,
        `neither --bf16 nor --fp16: the default of ${t.defaults.of}`,
      )
  }
  t.read('bf16', 'fp16')
  readGradients(t, bf16)
  readFp8(t)
  readScale(t, fp16)
  readMoments(t)
}

/** Dtypes of gradients, as flags and logs write them. */
const isNarrow = {
  ...{ fp32: false, float32: false, 'torch.float32': false },
  ...{ bf16: true, bfloat16: true, 'torch.bfloat16': true },
}

function readGradients(t: Terms, bf16: boolean): void {
  const narrow = t.is('grad-reduce-in-bf16') || t.choice('main-grads-dtype', isNarrow, 'gradients are f32') === true
  const term = t.is('grad-reduce-in-bf16') ? 'grad-reduce-in-bf16' : 'main-grads-dtype'
  if (bf16 && narrow) t.carry(term, 'plan.gradients', 'bf16', 'gradients are reduced in bf16')
  t.read('grad-reduce-in-bf16', 'main-grads-dtype', 'accumulate-allreduce-grads-in-fp32')
}

const recipes = { delayed: 'delayed', tensorwise: 'current', mxfp8: 'mx', blockwise: 'blocks' } as const

function readFp8(t: Terms) {
  const format = t.word('fp8-format') ?? (t.is('fp8-hybrid') ? 'hybrid' : t.is('fp8-e4m3') ? 'e4m3' : undefined)
  const term = t.has('fp8-format') ? 'fp8-format' : t.is('fp8-hybrid') ? 'fp8-hybrid' : 'fp8-e4m3'
  const all = [
    'fp8-recipe',
    'fp8-margin',
    'fp8-amax-history-len',
    'fp8-amax-compute-algo',
    'fp8-interval',
    'fp8-param-gather',
  ]
  if (format === undefined || format === 'None' || t.raw(term) === false) {
    t.read('fp8-format', 'fp8-hybrid', 'fp8-e4m3', ...all)
    return
  }
  const word = t.word('fp8-recipe') ?? String(t.defaults.value('fp8-recipe') ?? 'delayed')
  const recipe = recipes[word as keyof typeof recipes]
  if (!recipe) return t.drop('fp8-recipe', `FP8 recipe ${word} is not supported: matmuls stay in 16 bits`)
  if (format !== 'hybrid' && format !== 'e4m3')
    return t.drop(term, unknownValue(format, { hybrid: 0, e4m3: 0 }, 'matmuls stay in 16 bits'))
  const history = { history: t.whole('fp8-amax-history-len', 1) ?? 1, margin: t.whole('fp8-margin') ?? 0 }
  const algos = { max: 'max', most_recent: 'most_recent' }
  const algo = t.choice('fp8-amax-compute-algo', algos, 'most_recent') ?? 'most_recent'
  const settings = recipe === 'delayed' ? { ...history, algo } : recipe === 'current' ? { scales: 'exact' } : {}
  t.carry(term, 'plan.fp8', { recipe, ...settings }, `${format}, ${word}: FP8 matmuls of linear layers`)
  if (format === 'e4m3' && recipe !== 'blocks' && recipe !== 'mx') t.drop(term, 'gradients are E5M2, not E4M3')
  if (t.is('fp8-param-gather')) t.drop('fp8-param-gather', 'parameters are stored and gathered in 16 bits, not in FP8')
  t.read(...all)
}

function readScale(t: Terms, fp16: boolean): void {
  const fixed = t.number('loss-scale')
  const deepspeed = t.is('deepspeed')
  if (fp16 && fixed && !deepspeed) t.carry('loss-scale', 'training.lossScale', fixed)
  else if (fp16 && !deepspeed) {
    const scaler = {
      kind: 'megatron',
      initial: t.number('initial-loss-scale') ?? 2 ** 32,
      min: t.number('min-loss-scale') ?? 1,
      interval: t.number('loss-scale-window') ?? 1000,
      hysteresis: t.number('hysteresis') ?? 2,
    }
    t.reading.assume(t.path('loss-scale'), 'training.lossScale', scaler, 'not set: dynamic, as in Megatron')
  }
  t.read('loss-scale', 'initial-loss-scale', 'min-loss-scale', 'loss-scale-window', 'hysteresis')
}

function readMoments(t: Terms): void {
  for (const term of ['exp-avg-dtype', 'exp-avg-sq-dtype', 'main-params-dtype']) {
    const word = t.word(term)
    if (word !== undefined && !/^(fp32|torch\.float32|float32)$/.test(word))
      t.drop(term, `${word}: optimizer state is f32, so predicted memory is higher`)
    else t.read(term)
  }
  t.read('use-precision-aware-optimizer')
}

/** `selective` is the attention core; `full` is everything between the inputs of layers. */
export function readRecompute(t: Terms, layersOfStage: number | undefined): void {
  const granularity = t.is('recompute-activations') ? 'selective' : t.word('recompute-granularity')
  const old = t.is('checkpoint-activations') || t.has('activations-checkpoint-method')
  if (granularity === 'full' || old) readFull(t, layersOfStage)
  else if (granularity === 'selective') readSelective(t)
  else if (granularity === undefined || granularity === 'None') {
    if (t.defaults.value('recompute') !== undefined) t.reading.set('plan.recompute', 'none')
  } else t.refuse('recompute-granularity', `expected full or selective, got ${granularity}`)
  t.read(
    'recompute-activations',
    'recompute-granularity',
    'recompute-method',
    'recompute-num-layers',
    'recompute-modules',
  )
  t.read('checkpoint-activations', 'checkpoint-num-layers', 'deepspeed-activation-checkpointing')
  t.read('activations-checkpoint-method', 'activations-checkpoint-num-layers')
}

function readFull(t: Terms, layersOfStage: number | undefined): void {
  const find = (...terms: string[]) => terms.find(term => t.has(term))
  const term =
    find('recompute-granularity', 'activations-checkpoint-method', 'checkpoint-activations') ?? 'recompute-granularity'
  const methods = { uniform: 'uniform', block: 'block' }
  const given = find('recompute-method', 'activations-checkpoint-method')
  const method = given && t.choice(given, methods, 'all layers are recomputed, as with uniform')
  const count = find('recompute-num-layers', 'activations-checkpoint-num-layers', 'checkpoint-num-layers')
  const layers = count === undefined ? 1 : (t.whole(count, 1) ?? 1)
  if (method === 'block') {
    const all = layersOfStage !== undefined && layers >= layersOfStage
    const most = layersOfStage === undefined || 2 * layers >= layersOfStage
    t.carry(term, 'plan.recompute', all || most ? 'full' : 'none')
    if (!all)
      t.drop(
        count ?? term,
        `recomputation of the first ${layers} layers of a stage is not supported: ${most ? 'all' : 'none'} are recomputed`,
      )
    return
  }
  t.carry(term, 'plan.recompute', 'full')
  if (layers > 1 && count) t.drop(count, `the input of every layer is kept, not of every ${layers}th`)
}

const ofModules: Readonly<Record<string, string>> = {
  mlp: 'the feed-forward layers',
  moe: 'the routed layers',
  moe_act: 'the activations of experts',
  layernorm: 'norms',
  mla_up_proj: 'the projections from latents',
  shared_experts: 'the shared experts',
}

function readSelective(t: Terms): void {
  const term = t.is('recompute-activations') ? 'recompute-activations' : 'recompute-granularity'
  const modules = (t.list('recompute-modules') ?? ['core_attn']).flatMap(one => String(one).split(/[\s,]+/))
  const attention = modules.includes('core_attn')
  t.carry(term, 'plan.recompute', attention ? 'selective' : modules.includes('layernorm') ? 'cheap' : 'none')
  const others = modules.filter(name => name !== 'core_attn' && name !== '')
  if (others.length > 0)
    t.drop('recompute-modules', `not recomputed: ${others.map(name => ofModules[name] ?? name).join(', ')}`)
}
