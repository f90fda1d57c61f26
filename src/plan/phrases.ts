/** What rules of a job say, in English: the name of a phrase begins with the code of its problem; one with a dot stands within others. */
import { memoryPhrases, type ProblemPhrases, phrasing } from '../base/index.js'
import { modelPhrases } from '../model/phrases.js' // without the schemas beside them: words of commands are said before these are loaded
import { jobPhrases } from './phrases-files.js'
import { hintPhrases } from './phrases-hints.js'
import { sizePhrases } from './phrases-sizes.js'

const lost16 = 'f16 underflows below 2^-24: smaller gradients become 0 unless a loss scale is set'
const leaveOut = 'leave it out'

const rulePhrases = {
  'plan/no-effect/with': ['has no effect with {why}'],
  'plan/no-effect/below': ['has no effect below zero {zero}'],
  'plan/no-effect/replicated': [
    'with zero 0 every rank is a full replica: there is nothing to shard over {shard} ranks',
    'set zero to 1, 2 or 3, or leave shard out',
  ],
  'plan/no-effect/sharded': [
    'zero {zero} shards over groups of one rank, which is no sharding',
    'set shard to the devices of a node, or zero to 0',
  ],
  'plan/no-effect/zero': ['zero {zero} has no effect with dp 1'],
  'plan/no-effect/recompute': ['this {family} has no {absent}', 'it has {has}'],
  'plan/no-effect/compress': ['has no effect with dp 1 and cp 1: there is no data-parallel communication'],
  'plan/no-effect/parameters': ['{gather}: parameters are {dtype} already'],
  'plan/no-effect/gradients': ['{reduce}: gradients are {dtype} already'],

  'plan/layers/entries': ['{entries} entries for {stages}', 'write {count} numbers that add up to {layers}'],
  'plan/layers/only': ['the only stage holds all {layers} layers, not {wrong}', 'leave plan.layers out'],
  'plan/layers/sum': ['{parts} = {sum}, but the model has {layers} layers', 'they must add up to {layers}'],
  'plan/layers/none': [
    'stage {stage} would hold {held} of {parts} layers',
    'only the first and the last stage may hold none',
  ],
  'plan/chunks/looped': ['schedule {schedule} has chunks {chunks}, got {got}', 'try schedule {looped}'],
  'plan/chunks/fixed': ['schedule {schedule} has chunks {chunks}, got {got}', 'leave chunks out'],
  'plan/schedule/even': ['{schedule} is designed for an even pp, got pp {pp}', 'try {near}'],
  'plan/schedule/pairs': [
    '{schedule} is designed for an even number of microbatches, got {microbatches}',
    'try {near}',
  ],
  'plan/schedule/fill': [
    '{schedule} fills the pipeline only with microbatches >= 2 x pp = {least}, got {microbatches}',
    'try {least}',
  ],

  'plan/offload': [
    'with ZeRO-{zero} the full parameters stay on the device between steps, so none are loaded from the {space}',
    'try zero 3',
  ],

  'plan/unwise/full': [
    'full recompute saves little memory with {schedule}: activations recomputed for the input gradient are kept until the weight gradient',
    'try selective, or 1f1b',
  ],
  'plan/unwise/sequence': [
    '{schedule} splits the backward pass in two, and both halves all-gather the output gradient over tp: 6 all-gathers per layer instead of 4',
    'try 1f1b or interleaved',
  ],
  'plan/unwise/f16': [lost16, 'set training.lossScale, or try bf16'],
  'plan/unwise/nothing-crosses': [
    '{reduce}: there is no communication over {axes}, but gradients lose precision all the same',
    'leave reduce out',
  ],
  '.data-axes': ['the data axes'],
  'plan/unwise/ratio': [
    'ratio {ratio} x dp {dp} = {product}: from 1 on, topk sends no fewer bytes than a full all-reduce',
    'try less than {less}',
  ],
  'plan/unwise/sums': [
    'gradients of {microbatches} microbatches are accumulated in bf16, where a sum of {most} similar numbers stops growing',
    'try f32',
  ],

  'plan/precision/f16': [lost16, 'set training.lossScale to {scaler}, or try bf16, which needs none'],
  'plan/precision/gradients-f16': [
    'gradients are computed from f16: in {asked} they keep the same range and lose precision',
    'set it to {can}, or precision to bf16',
  ],
  'plan/precision/gradients': [
    'gradients are computed from {dtype}: in {asked} they lose precision and save nothing',
    'set it to {can}, or precision to bf16',
  ],
  'plan/precision/rounding-f32': [
    'parameters are f32: stochastic rounding has no effect',
    'set precision to bf16-no-masters or pure-bf16, or leave rounding out',
  ],
  'plan/precision/rounding': [
    'f32 master weights already keep the updates that {dtype} parameters would lose: stochastic rounding has no effect',
    'set precision to bf16-no-masters or pure-bf16, or leave rounding out',
  ],
  'plan/unsupported/adafactor': ['adafactor supports only rounding: nearest', 'choose another optimizer'],
  'plan/precision/codes': [
    'FP8 matmuls quantize bf16 tensors, but precision {precision} stores {dtype}',
    'set plan.precision to bf16 or pure-bf16',
  ],
  'plan/precision/side': [
    '{name} = {size} is not a multiple of {side}: GPUs dequantize before this matmul, so FP8 is no faster',
    'try {next}',
  ],
  '.tokens': ['tokens per rank'],
  'plan/precision/experts': [
    'matmuls of the {count} experts stay in {dtype}: only attention and the layers that every token passes through use FP8',
    'set plan.fp8.experts to true to use FP8 in experts too',
  ],
  'plan/precision/rows': [
    'GPUs dequantize block-scaled expert inputs and multiply in {dtype}, and weight gradients of experts are computed in {dtype}: FP8 experts are no faster',
    'set the recipe to current or delayed, or experts to false',
  ],
  'plan/precision/no-experts': ['the model has no experts', leaveOut],
  'plan/precision/mx': [
    'mx stores only the exponent of a scale, but exact = max FP8 value / amax is not a power of two',
    'set scales to powers, or the recipe to blocks',
  ],
  'plan/precision/delayed': ['has no effect: delayed scales are always exact'],
  'plan/precision/documents': [
    'each document is sharded separately, so the tokens of a block would depend on cp',
    'set plan.zigzag to true, or the recipe to current',
  ],
  'plan/precision/block': [
    'GPUs multiply blocks of {usual} natively; other sizes are dequantized first',
    'leave it at {usual}',
  ],
  'plan/precision/cut': [
    '{name} {size} / ({by}) = {each} is not a multiple of {whole}: a block of {block} would be split',
    'try {name} {next}, or the recipe current',
  ],

  'plan/compress/exact-copy': [
    'with zero {zero} the gathered parameters are the only exact copy: gather {gather} would round them',
    'set zero to 3, or leave gather out',
  ],
  'plan/compress/cuts': [
    'int8: results depend on how parameters are sharded, so they change with dp, cp and tp (now {dp}, {cp} and {tp})',
    'bf16 only rounds, whatever the plan',
  ],
  'plan/compress/virtual': [
    'virtual simulates other data-parallel ranks on a single rank, but the plan has {ranks}',
    'leave virtual out',
  ],
  'plan/compress/replicas': [
    'int8 sums cannot be all-reduced over replicas: with shard {shard} of dp {dp} a gradient is summed twice',
    'set reduce to bf16, or leave shard out',
  ],
  'plan/compress/once': [
    '{reduce} sends gradients once per step, but with zero {zero} every microbatch reduce-scatters its own',
    'set reduce to step, or zero to 1',
  ],
  'plan/compress/f32': [
    '{reduce} adds its error-feedback residual to the next gradient in f32, but gradients are {dtype}',
    'set gradients to f32',
  ],
  'plan/compress/device': [
    '{reduce} needs its error-feedback residual on the device, but optimizer state is on the {space}',
    'leave offload.optimizer out',
  ],
  'plan/compress/adam': [
    'onebit compresses the first moment of Adam, but the optimizer is {optimizer}',
    'set training.optimizer.kind to adamw, or try topk',
  ],
  'plan/compress/uncorrected': [
    'onebit freezes v, but bias correction would continue and change the size of updates',
    'set uncorrected to true',
  ],
  'plan/compress/option': ['onebit sends only the first moment of AdamW, but {option} is set', 'leave {option} out'],
  'plan/compress/part': [
    'onebit needs the full m on every rank, but zero {zero} shards it: it is all-gathered every step, 4 bytes per parameter',
    'zero 0 sends only signs',
  ],
  'plan/compress/from': [
    'v is frozen at step 0, where it is 0: no parameter would change',
    'set from to the end of the learning-rate warmup, or {enough}',
  ],
  'plan/compress/early': [
    '1-bit Adam needs a warmup: from step {from} on v is frozen at {percent} % of the mean squared gradient (beta2 {beta2}), so updates stay {times} times as large as those of Adam and the run may diverge',
    'set from to {enough}, or lower beta2',
  ],
  'plan/compress/zigzag': [
    'powersgd keeps a residual for learned position embeddings; with zigzag each rank holds two separate ranges of it, which checkpoints cannot store',
    'set zigzag to false, or try topk',
  ],
  'plan/compress/clip': [
    'from step {from} on gradients are not all-reduced: clip {clip} limits the norm of the averaged first moment m instead',
  ],
  'plan/compress/sequences': [
    '{reduce} compresses gradients of full sequences, but cp {cp} shards sequences',
    'set cp to 1, or try bf16',
  ],
  'plan/compress/experts': [
    '{reduce}: with {axis} {size} expert gradients come from tokens of several ranks, and are sent uncompressed',
  ],
  'plan/compress/both-ends': [
    '{reduce}: with {schedule} two ranks hold every stage, so gradients are summed once more and cannot be compressed',
    'choose another schedule, or try bf16',
  ],
  'plan/compress/balance': [
    '{reduce} compresses the local gradient of each rank, but the load-balancing loss per microbatch depends on all ranks',
    'leave model.moe.loss.microbatch out, or try bf16',
  ],
  'plan/compress/addends': [
    '{reduce}: results depend on the local gradient of each rank, so they change with dp and tp (now {dp} and {tp})',
    'bf16 only rounds, whatever the plan',
  ],
  'plan/compress/addends-kept': [
    '{reduce}: results depend on the local gradient of each rank, so they change with dp and tp (now {dp} and {tp})',
    'the residual of powersgd does not depend on the plan',
  ],
} as const satisfies ProblemPhrases

export const planPhrases = {
  ...{ ...memoryPhrases, ...modelPhrases, ...rulePhrases },
  ...{ ...sizePhrases, ...jobPhrases, ...hintPhrases },
} as const

export type PlanPhrases = typeof planPhrases

export const { refused, advised, clause } = phrasing(planPhrases)
