/** Megatron-DeepSpeed: what the configuration of DeepSpeed beside the flags says of state and precision. */
import { isMapping, type Mapping } from '../../plan/index.js'
import { readTree } from '../tree.js'
import type { Terms } from './terms.js'

export function readDeepSpeed(t: Terms, read: (path: string) => string | undefined): void {
  if (!t.has('deepspeed') && !t.has('deepspeed-config')) return
  const path = t.word('deepspeed-config')
  const text = path === undefined ? undefined : read(path)
  const tree = text === undefined ? undefined : readTree(text, 'json')
  const config = tree && isMapping(tree.value) ? tree.value : undefined
  if (!config) t.drop('deepspeed-config', `${path ?? 'its config'} was not found: ZeRO stage from --zero-stage`)
  readStage(t, config)
  readLossScale(t, inside(config, 'fp16'))
  if (config) readGradients(t, config)
  t.read('deepspeed', 'deepspeed-config', 'zero-stage', 'no-pipeline-parallel', 'deepspeed-activation-checkpointing')
}

const inside = (config: Mapping | undefined, key: string): Mapping | undefined => {
  const value = config?.[key]
  return isMapping(value) ? value : undefined
}

/** bf16 without a stage splits optimizer state all the same where there is a pipeline. */
function readStage(t: Terms, config: Mapping | undefined): void {
  const given = inside(config, 'zero_optimization')?.stage
  const stage = typeof given === 'number' ? given : (t.whole('zero-stage') ?? 0)
  const term = typeof given === 'number' ? 'deepspeed-config' : 'zero-stage'
  const piped = !t.is('no-pipeline-parallel')
  if (stage === 0 && t.is('bf16') && piped)
    t.derive(term, 'plan.zero', 1, 'stage 0 with bf16 and a pipeline: its bf16 optimizer splits its state over dp')
  else if (stage > 1 && piped && Number(t.reading.field('plan.pp')) > 1)
    t.refuse('zero-stage', `stage ${stage} excludes pipelines: DeepSpeed refuses it`)
  else t.carry(term, 'plan.zero', stage)
  const offload = inside(inside(config, 'zero_optimization'), 'offload_optimizer')?.device
  if (offload === 'cpu' || offload === 'nvme')
    t.reading.carry(t.path('deepspeed-config'), 'plan.offload', { optimizer: offload === 'cpu' ? 'host' : 'disk' })
}

/** DeepSpeed scales the loss, whatever the flags say: as its configuration has it, or with its defaults. */
function readLossScale(t: Terms, half: Mapping | undefined): void {
  if (!t.is('fp16')) return
  const number = (key: string, usual: number) => (typeof half?.[key] === 'number' ? half[key] : usual)
  const fixed = number('loss_scale', 0)
  const scaler = {
    ...{ kind: 'deepspeed', initial: 2 ** number('initial_scale_power', 16), min: number('min_loss_scale', 1) },
    ...{ interval: number('loss_scale_window', 1000), hysteresis: number('hysteresis', 2) },
  }
  const [path, scale] = [t.path('deepspeed-config'), fixed > 0 ? fixed : scaler]
  if (half) t.reading.carry(path, 'training.lossScale', scale, 'as DeepSpeed scales it')
  else t.reading.assume(path, 'training.lossScale', scale, 'no fp16 section found: the defaults of DeepSpeed')
}

function readGradients(t: Terms, config: Mapping): void {
  const wide = inside(config, 'data_types')?.grad_accum_dtype === 'fp32'
  if (t.is('bf16') && !wide && !(Number(t.reading.field('plan.zero')) <= 1 && !t.is('no-pipeline-parallel')))
    t.reading.set('plan.gradients', 'bf16')
}
