/**
 * What other frameworks call the things a job says: DeepSpeed, Megatron-LM, Hugging Face, PyTorch, torchtitan, nanoGPT.
 * A word of theirs is answered with the word that is meant here, or with what is not there yet.
 */
import { optimizerKinds, shorten } from '../base/index.js'

/** Other frameworks' keys, in lower case without separators. */
const keys: Readonly<Record<string, string>> = {
  ...spelt('plan.dp', 'dataparallel dataparallelsize dataparalleldegree ddp replicas numreplicas'),
  ...spelt(
    'plan.tp',
    'tensorparallel tensorparallelsize tensormodelparallelsize tensorparalleldegree modelparallel mp',
  ),
  ...spelt('plan.pp', 'pipelineparallel pipelineparallelsize pipelinemodelparallelsize pipelineparalleldegree stages'),
  ...spelt('plan.cp', 'contextparallel contextparallelsize contextparalleldegree sequenceparallelsize ulysses'),
  ...spelt('plan.ep', 'expertparallel expertparallelsize expertmodelparallelsize expertparalleldegree'),
  ...spelt('plan.zero', 'zerostage zerooptimization zero1 zero2 zero3 fsdp fullyshard fullyshardeddataparallel'),
  ...spelt('plan.zero', 'shardingstrategy usedistributedoptimizer distributedoptimizer dataparallelsharddegree'),
  ...spelt('plan.sequenceParallel', 'sp seqparallel'),
  ...spelt('plan.microbatches', 'gradientaccumulation gradientaccumulationsteps gradaccumsteps gradaccum'),
  ...spelt('plan.microbatches', 'accumulategradbatches nummicrobatches microbatch microbatchsize'),
  ...spelt('plan.microbatches', 'trainmicrobatchsizepergpu perdevicetrainbatchsize localbatchsize'),
  ...spelt('plan.schedule', 'pipelineschedule pipelineparallelschedule'),
  ...spelt('plan.chunks', 'virtualpipelinemodelparallelsize virtualstages numlayerspervirtualpipelinestage vpp'),
  ...spelt('plan.recompute', 'gradientcheckpointing activationcheckpointing activationcheckpoint checkpointing'),
  ...spelt('plan.recompute', 'recomputegranularity recomputemethod recomputeactivations remat rematerialization'),
  ...spelt(
    'plan.precision',
    'dtype paramdtype torchdtype mixedprecision bf16 bfloat16 fp32 float32 fp16 float16 half amp',
  ),
  ...spelt('plan.overlap', 'overlapcomm overlapgradreduce overlapparamgather'),
  ...spelt('plan.deviceMemory', 'gpumemory memorypergpu vram'),
  ...spelt('training.seq', 'seqlen seqlength sequencelength maxseqlen maxseqlength contextlength blocksize'),
  ...spelt('training.globalBatch', 'globalbatchsize trainbatchsize batchsize batch'),
  ...spelt('training.steps', 'maxsteps trainiters numsteps iterations maxiters trainingsteps'),
  ...spelt('training.clip', 'gradientclipping clipgrad gradclip maxgradnorm maxnorm'),
  ...spelt('training.lossScale', 'lossscaling gradscaler gradientscaler dynamiclossscale lossscaler'),
  ...spelt('training.lossScale.initial', 'initscale initialscale initiallossscale initialscalepower'),
  ...spelt('training.lossScale.min', 'minscale minlossscale'),
  ...spelt('training.lossScale.growth', 'growthfactor scalefactor'),
  ...spelt('training.lossScale.backoff', 'backofffactor'),
  ...spelt('training.lossScale.interval', 'growthinterval lossscalewindow scalewindow window'),
  ...spelt('training.lossScale.hysteresis', 'delayedshift'),
  ...spelt('training.lossScale.consecutive', 'consecutivehysteresis'),
  ...spelt('training.optimizer.lr', 'learningrate'),
  ...spelt('training.optimizer.weightDecay', 'decay'),
  ...spelt('training.optimizer.beta1', 'adambeta1'),
  ...spelt('training.optimizer.beta2', 'adambeta2'),
  ...spelt('training.lrSchedule', 'scheduler lrscheduler lrdecaystyle'),
  ...spelt('training.lrSchedule.warmup', 'warmupsteps lrwarmupiters warmupiters'),
  ...spelt('training.evalEvery', 'evalinterval evalsteps'),
  ...spelt('data.documents', 'resetpositionids resetattentionmask eodmaskloss packing packedsequences documentmask'),
  ...spelt('data.documents.separator', 'eod eodtoken eostokenid'),
  ...spelt('data.source', 'dataset datapath traindata datasetpath'),
  ...spelt('model.layers', 'numlayers numhiddenlayers nlayer nlayers depth'),
  ...spelt('model.embed', 'hiddensize nembd dmodel dim hidden width'),
  ...spelt('model.heads', 'numattentionheads nhead nheads numheads'),
  ...spelt('model.kvHeads', 'numkeyvalueheads nkvheads numquerygroups'),
  ...spelt('model.ffn', 'intermediatesize ffnhiddensize dff'),
  ...spelt('model.moe', 'moe mixtureofexperts nummoeexperts numexperts numlocalexperts nroutedexperts'),
  ...spelt('model.vocab', 'vocabsize paddedvocabsize'),
  ...spelt('model.positions', 'maxpositionembeddings'),
  ...spelt('model.tied', 'tiewordembeddings'),
}

function spelt(meant: string, words: string): Record<string, string> {
  return Object.fromEntries(words.split(' ').map(word => [word, meant]))
}

const plainly = (word: string): string => word.toLowerCase().replaceAll(/[-_. ]/g, '')

/** 'tensor_model_parallel_size' -> 'plan.tp' */
export const keyMeant = (word: string): string | undefined => {
  const plain = plainly(word)
  return Object.hasOwn(keys, plain) ? keys[plain] : undefined
}

/** What a key of another framework does not say by itself. */
const remarks: Readonly<Record<string, string>> = {
  'plan.zero': '1 splits optimizer state over dp, 2 gradients too, 3 parameters too (FSDP)',
  'plan.microbatches': 'a microbatch has globalBatch / (dp x microbatches) sequences',
  'plan.chunks': 'stages each pipeline rank holds, with schedule interleaved',
  'plan.recompute': 'none, cheap, selective or full',
  'plan.cp': 'attention says how its ranks meet: gather, ring, ulysses or { ulysses, ring }',
  'plan.ep': 'ranks that a model with `moe` deals its experts out to',
  'model.moe': 'of the llama family: { experts, chosen, ffn, ... }',
  'training.lossScale': 'a number that stays, or { kind: torch, megatron or deepspeed, ... }',
  'training.lrSchedule': 'kind constant, linear, cosine, inverse-sqrt or wsd',
}

/** Keys for what does not exist here. */
const missingKeys: Readonly<Record<string, string>> = {
  offload: 'what leaves the device is said by plan.offload: { optimizer: host or disk, activations: boundaries }',
  lora: 'adapters are not supported yet: every parameter is trained',
}

/** What to write instead of a key that a job does not have; `path` is where it stands. */
export function keyHint(key: string, path: string): string | undefined {
  const plain = plainly(key)
  const missing = Object.keys(missingKeys).find(word => plain.includes(word))
  if (missing !== undefined) return missingKeys[missing]
  const meant = keyMeant(key)
  if (meant === undefined) return undefined
  const remark = Object.hasOwn(remarks, meant) ? ` (${remarks[meant]})` : ''
  return `did you mean \`${meant.startsWith(`${path}.`) ? meant.slice(path.length + 1) : meant}\`?${remark}`
}

const f8 = 'what is kept has 16 bits at least: write bf16, and fp8: {} beside it for products on 8'
const noOptimizer = `not supported yet; one of ${optimizerKinds.join(', ')}`

/** Other frameworks' values by field and word: the value that is meant, or a sentence. */
const values: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  precision: {
    ...spelt('`bf16`', 'bfloat16 bf16mixed bf16true mixed amp'),
    ...spelt('`f32`', 'float32 fp32 float full single'),
    ...spelt('`f16`', 'fp16 float16 half 16mixed'),
    ...spelt(f8, 'fp8 float8 f8 e4m3 e5m2 mxfp8 nvfp4 fp4'),
    tf32: 'tf32 is how a GPU multiplies f32: write f32, and price it with simulate --multiply tf32',
  },
  schedule: {
    ...spelt('`1f1b`', 'pipedream pipedreamflush dapple onefoneb oneforwardonebackward'),
    ...spelt('`interleaved`', 'interleaved1f1b virtualpipeline virtual vpp megatron'),
    ...spelt('`zb-h1`', 'zerobubble zb zbh zb1p'),
    ...spelt('`zb-h2`', 'zb2p'),
    ...spelt('`zb-v`', 'zbvzerobubble zbv'),
    ...spelt('`interleaved-zb`', 'interleavedzerobubble'),
    ...spelt('`looped-bfs`', 'loopedbfs bfs breadthfirst'),
    pipedream2bw: 'weights of several versions are not supported: a step uses one; did you mean `1f1b`?',
    ...spelt('not supported; dualpipe also runs both ways, or write a .csv file', 'chimera hanayo'),
  },
  recompute: {
    ...spelt('`full`', 'true yes on all uniform block'),
    ...spelt('`none`', 'false no off'),
    ...spelt('`selective`', 'attention core'),
    ...spelt('`cheap`', 'norms activations pointwise elementwise'),
  },
  kind: {
    ...spelt('`adamw`, with coupled: true for the decay of plain Adam', 'adam adamoptimizer fusedadam'),
    ...spelt('`sgd` with momentum and nesterov: true', 'nesterov nag'),
    ...spelt('`adamw` with amsgrad: true', 'amsgrad'),
    ...spelt(noOptimizer, 'adafactor shampoo sophia adagrad rmsprop adam8bit'),
  },
  optimizer: {
    ...spelt('write { kind: adamw, lr: 3e-4 }', 'adamw adam'),
    sgd: 'write { kind: sgd, lr: 0.1 }',
    lion: 'write { kind: lion, lr: 1e-4 }',
  },
  zero: {
    ...spelt('`1`', 'zero1 stage1 os'),
    ...spelt('`2`', 'zero2 stage2 osg'),
    ...spelt('`3`', 'zero3 stage3 fsdp'),
  },
}

/** What to write instead of a value that a field does not take. */
export function valueHint(field: string, value: unknown): string | undefined {
  if (typeof value === 'object') return undefined
  if (field === 'data' && typeof value === 'string') return `write { source: ${shorten(value, 60)} }`
  const known = Object.hasOwn(values, field) ? values[field] : undefined
  const word = plainly(String(value))
  const meant = known && Object.hasOwn(known, word) ? known[word] : undefined
  return meant?.startsWith('`') ? `did you mean ${meant}?` : meant
}

const noPreset = 'no preset: write model: ./config.json with its Hugging Face config'
const encoders = 'only decoders that predict the next token are supported'

/** Families of models, by how their names begin. */
const families: readonly (readonly [name: RegExp, hint: string])[] = [
  [/mixtral|qwen\d?.*moe|deepseek|kimi/i, noPreset],
  [
    /moe|dbrx|grok|gpt-?oss|switch/i,
    'routed experts are part of the llama family alone: mixtral, qwen, deepseek, kimi',
  ],
  [/bert|t5|bart|vit|clip|whisper/i, encoders],
  [/mistral|qwen|yi|phi|gemma|smollm|tinyllama/i, noPreset],
  [/falcon|bloom|opt|mpt|neox|pythia|gpt-?j/i, 'not supported; families: gpt, llama, mlp'],
]

/** What to write instead of a model that has no preset. */
export function modelHint(name: string): string | undefined {
  if (isPath(name)) return `a folder or another file is not read: write model: ${name.replace(/\/+$/, '')}/config.json`
  const [, hint] = families.find(([pattern]) => pattern.test(name)) ?? []
  if (hint !== undefined) return hint
  return isHubName(name)
    ? 'that looks like a name on the Hugging Face hub: nothing is downloaded, save its config.json beside the job and write model: ./config.json'
    : undefined
}

/** './llama', '/models/llama' */
const isPath = (text: string): boolean => /^(\.{0,2}|~)\//.test(text)

/** 'meta-llama/Llama-3.1-8B' */
export const isHubName = (text: string): boolean =>
  /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/.test(text) && !/\.(ya?ml|json|toml)$/.test(text)
