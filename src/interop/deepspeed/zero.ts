/** What DeepSpeed splits over the data ranks, where it keeps it, and in what bits it sends it. */
import type { Given } from '../note.js'
import type { Reading } from '../reading.js'

const at = (key: string): string => `zero_optimization.${key}`

/** The stage; `auto` in this section is the default, but for sizes that follow from the model. */
export function readZero(r: Reading, given: Given): number {
  const raw = r.raw('zero_optimization')
  if (typeof raw === 'boolean') {
    r.carry('zero_optimization', 'plan.zero', raw ? 1 : 0, 'true is stage 1, as before 0.3')
    return raw ? 1 : 0
  }
  const stage = isAuto(r, at('stage')) ? undefined : r.whole(at('stage'))
  if (stage !== undefined && stage > 3) r.refuse(at('stage'), `there is no stage ${stage}`)
  if (stage === undefined) r.assume(at('stage'), 'plan.zero', 0, '0 is the default of DeepSpeed')
  else r.carry(at('stage'), 'plan.zero', stage)
  readOverlap(r, stage ?? 0)
  readOffload(r, stage ?? 0)
  readQuantised(r, stage ?? 0)
  readSizes(r, given)
  return stage ?? 0
}

const isAuto = (r: Reading, path: string): boolean => r.raw(path) === 'auto'

function readOverlap(r: Reading, stage: number): void {
  const path = at('overlap_comm')
  const said = isAuto(r, path) ? undefined : r.bool(path)
  if (said === undefined)
    r.assume(path, 'plan.overlap', stage === 3, `${stage === 3} is DeepSpeed's default for stage ${stage}`)
  else r.carry(path, 'plan.overlap', said)
}

const spaces: Readonly<Record<string, string>> = { none: 'device', cpu: 'host', nvme: 'disk' }

function readOffload(r: Reading, stage: number): void {
  for (const [key, field, old] of [
    ['offload_optimizer', 'optimizer', 'cpu_offload'],
    ['offload_param', 'parameters', 'cpu_offload_params'],
  ] as const) {
    if (r.has(at(old))) readDevice(r, at(old), field, r.bool(at(old)) ? 'cpu' : 'none', stage)
    const path = at(`${key}.device`)
    if (r.has(at(key))) readDevice(r, path, field, isAuto(r, path) ? 'none' : (r.word(path) ?? 'none'), stage)
    r.cosmetic(at(`${key}.pin_memory`), at(`${key}.nvme_path`), at(`${key}.fast_init`))
    const ratio = r.number(at(`${key}.ratio`))
    if (ratio === 1) r.cosmetic(at(`${key}.ratio`))
    else if (ratio !== undefined)
      r.drop(at(`${key}.ratio`), `only ${ratio} of the optimizer state is offloaded; Lockstep offloads all of it`)
  }
}

function readDevice(r: Reading, path: string, field: 'optimizer' | 'parameters', device: string, stage: number): void {
  if (!Object.hasOwn(spaces, device)) r.refuse(path, `expected none, cpu or nvme, got ${device}`)
  else if (device === 'none') r.carry(path, `plan.offload.${field}`, undefined)
  else if (field === 'parameters' && stage < 3)
    r.drop(path, `DeepSpeed ignores it with stage ${stage}: only stage 3 offloads parameters`)
  else if (stage === 0) r.drop(path, 'DeepSpeed offloads optimizer state with stages 1 to 3 only')
  else r.carry(path, `plan.offload.${field}`, spaces[device], `${device} is the ${spaces[device]}`)
}

/** ZeRO++: parameters and gradients travel in 8 and 4 bits. */
function readQuantised(r: Reading, stage: number): void {
  const weights = at('zero_quantized_weights')
  if (r.bool(weights) && stage === 3)
    r.carry(
      weights,
      'plan.compress.gather',
      'int8',
      'parameters are gathered in INT8; DeepSpeed has other quantization blocks',
    )
  else if (r.has(weights)) r.cosmetic(weights)
  const gradients = at('zero_quantized_gradients')
  if (r.bool(gradients))
    r.drop(gradients, 'ZeRO++: INT4 gradients, reduced within nodes first; plan.compress.reduce: int8 is the nearest')
  else if (r.has(gradients)) r.cosmetic(gradients)
  const partition = at('zero_hpz_partition_size')
  if (r.raw(partition) === 1) r.cosmetic(partition)
  const shard = at('mics_shard_size')
  const size = r.number(shard)
  if (size === -1) r.cosmetic(shard)
  else if (size !== undefined && size > 0 && stage === 3)
    r.carry(shard, 'plan.shard', size, `MiCS is HSDP: groups of ${size} ranks are replicas`)
}

/** Sizes that `auto` works out from the width of the model. */
function readSizes(r: Reading, { model }: Given): void {
  const embed = widthOf(model)
  const sizes = {
    reduce_bucket_size: { of: (h: number) => h * h, words: 'h^2' },
    stage3_prefetch_bucket_size: { of: (h: number) => Math.trunc(0.9 * h * h), words: 'int(0.9 h^2)' },
    stage3_param_persistence_threshold: { of: (h: number) => 10 * h, words: '10 h' },
  } as const
  for (const [key, { of, words }] of Object.entries(sizes)) {
    const path = at(key)
    if (!isAuto(r, path)) continue
    if (embed === undefined) r.drop(path, `auto is ${words}, with h the hidden size of the model: set --model`)
    else
      r.derive(
        path,
        key === 'reduce_bucket_size' ? 'plan.bucket' : '',
        undefined,
        `${words} = ${of(embed)} elements, with h ${embed}`,
      )
  }
  const path = at('reduce_bucket_size')
  const bucket = isAuto(r, path) ? embed && embed * embed : r.number(path)
  const bytes = r.field('plan.precision') === 'f32' ? 4 : 2
  if (bucket === undefined && !r.has(path))
    r.assume(path, 'plan.bucket', 5e8 * bytes, `500000000 elements of ${bytes} bytes are the default of DeepSpeed`)
  else if (bucket !== undefined && bucket > 0 && bucket * bytes <= 2 ** 50)
    r.carry(path, 'plan.bucket', bucket * bytes, `${bucket} elements of ${bytes} bytes`)
  else if (bucket !== undefined) r.drop(path, 'not a bucket size')
}

export function widthOf(model: Given['model']): number | undefined {
  if (typeof model !== 'object') return undefined
  const found = [
    model.hidden_size,
    model.n_embd,
    model.d_model,
    ...(Array.isArray(model.hidden_sizes) ? model.hidden_sizes : []),
  ]
  const widths = found.filter(width => typeof width === 'number')
  return widths.length > 0 ? Math.max(...widths) : undefined
}
