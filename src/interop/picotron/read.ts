/** picotron's JSON. AdamW of PyTorch with its defaults, no clipping, no schedule: the file says little, and all of it counts. */
import { fromHuggingFace } from '../../model/index.js'
import type { Given, Imported, Reader } from '../note.js'
import { type KeyTable, Reading } from '../reading.js'
import { readTokens } from '../tokens.js'
import { readTree } from '../tree.js'

const known: KeyTable = {
  'distributed.backend': '',
  'model.use_flash_attention': '',
  'model.use_fused_adam': '',
  'model.dtype': 'picotron does not read it: bfloat16 throughout on a GPU, float32 on a CPU',
  'training.num_samples': 'number of samples to read',
  'training.max_tokens': 'training ends after this number of tokens',
  dataset: 'set data.source',
  checkpoint: '',
  logging: '',
  environment: '',
}

/** PyTorch's AdamW, and what picotron does without being told. */
const torchAdamW = { kind: 'adamw', beta1: 0.9, beta2: 0.999, eps: 1e-8, weightDecay: 0.01 } as const

export const readPicotron: Reader = (text, given) => {
  const reading = new Reading({ framework: 'picotron', format: 'json' }, readTree(text, 'json'))
  if (!reading.refused) {
    readMesh(reading, given)
    readTraining(reading)
    readModel(reading, given)
  }
  return finish(reading)
}

const finish = (reading: Reading): Imported => reading.finish(known, 'picotron does not read this key')

function readMesh(r: Reading, { world }: Given): void {
  const sizes = (['tp', 'cp', 'pp', 'dp'] as const).map(axis => {
    const path = `distributed.${axis}_size`
    const size = r.whole(path, 1)
    if (size === undefined) r.assume(path, `plan.${axis}`, 1, 'picotron has no default; 1 is used')
    else r.carry(path, `plan.${axis}`, size)
    return size ?? 1
  })
  const product = sizes.reduce((a, b) => a * b, 1)
  r.world = world ?? product
  if (world !== undefined && world !== product)
    r.refuse('distributed', `tp x cp x pp x dp = ${sizes.join(' x ')} = ${product} ranks, not ${world}`)
  const engine = r.word('distributed.pp_engine')
  if (engine !== undefined && engine !== '1f1b' && engine !== 'afab')
    r.refuse('distributed.pp_engine', `expected 1f1b or afab, got ${engine}`)
  else if (engine !== undefined) r.carry('distributed.pp_engine', 'plan.schedule', engine === 'afab' ? 'gpipe' : '1f1b')
  const cpu = r.bool('distributed.use_cpu') ?? false
  if (cpu) r.carry('distributed.use_cpu', 'plan.precision', 'f32', 'on a CPU picotron computes in float32')
  else r.derive('distributed.use_cpu', 'plan.precision', 'pure-bf16', 'on a GPU parameters and moments are bfloat16')
  if (!cpu) r.set('plan.gradients', 'f32')
  r.assume('distributed', 'plan.rankOrder', 'tp-cp-ep-pp-dp', 'rank order of picotron: tp, cp, pp, dp')
  r.assume('distributed', 'plan.zero', 0, 'picotron has no ZeRO')
  if ((sizes[1] ?? 1) > 1)
    r.assume('distributed.cp_size', 'plan.attention', 'ring', 'ring attention, contiguous shards')
  if ((sizes[1] ?? 1) > 1) r.set('plan.zigzag', false)
}

function readTraining(r: Reading): void {
  readTokens(r, {
    ...{ seq: 'training.seq_length', steps: 'training.total_train_steps', seed: 'training.seed' },
    ...{ micro: 'training.micro_batch_size', accumulation: 'training.gradient_accumulation_steps' },
  })
  const lr = r.number('training.learning_rate')
  r.assume('training', 'training.optimizer', torchAdamW, 'AdamW with the defaults of PyTorch')
  if (lr !== undefined) r.carry('training.learning_rate', 'training.optimizer.lr', lr)
  else r.missing('training.optimizer.lr', 'training.learning_rate is not in the file')
  r.assume('training', 'training.lrSchedule', { kind: 'constant', warmup: 0 }, 'picotron has no learning-rate schedule')
  r.assume(
    'training',
    'training.paramGroups',
    { norm: { weightDecay: 1 }, bias: { weightDecay: 1 } },
    'weight decay applies to norms too',
  )
}

/** Widths come from the configuration that `name` stands for; the counts of the file stand above it. */
function readModel(r: Reading, { model }: Given): void {
  const counts = ['num_hidden_layers', 'num_attention_heads', 'num_key_value_heads'] as const
  const given = typeof model === 'object' ? model : undefined
  const name = r.word('model.name')
  if (!given) {
    if (typeof model === 'string') return
    r.missing('model', `the sizes are in the config of ${name ?? 'the model'}: --model config.json`)
    for (const key of ['name', ...counts])
      if (r.has(`model.${key}`)) r.drop(`model.${key}`, 'the rest of the model is missing')
    return
  }
  const changes = Object.fromEntries(
    counts.flatMap(key => (r.has(`model.${key}`) ? [[key, r.whole(`model.${key}`, 1)]] : [])),
  )
  const { config, problems } = fromHuggingFace({ model_type: 'llama', ...given, ...changes, head_dim: null })
  if (!config) {
    r.refuse('model', problems.map(p => `${p.path}: ${p.message}`).join('; '))
    return
  }
  r.carry('model.name', 'model', config, 'widths from --model')
  const fields = { num_hidden_layers: 'layers', num_attention_heads: 'heads', num_key_value_heads: 'kvHeads' } as const
  for (const key of counts) if (r.has(`model.${key}`)) r.carry(`model.${key}`, `model.${fields[key]}`, undefined)
}
