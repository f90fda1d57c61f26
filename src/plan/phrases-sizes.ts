/** Messages about sizes that must divide each other, and about the mesh, in English. */
import type { ProblemPhrases } from '../base/index.js'

const zero = ', must be 0'
const leaveOut = 'leave it out'

const modelPhrases = {
  'model/heads/kv': [`heads {heads} % kvHeads {kvHeads} = {rest}${zero}`, 'try {near}'],
  'model/heads/width': ['embed {embed} / heads {heads} = {width} is not an integer', 'try {near}'],
  'model/heads/odd': ['headDim {headDim} is odd, but rotary positions rotate pairs', 'try {near}'],
  'model/latent/keys': ['kvHeads {kvHeads}, but latent attention has a key for each of {heads} heads', leaveOut],
  'model/latent/width': [
    'headDim {headDim}, but qkNopeHeadDim {qkNopeHeadDim} + qkRopeHeadDim {qkRopeHeadDim} = {sum}',
    leaveOut,
  ],
  'model/latent/odd': ['qkRopeHeadDim {qkRopeHeadDim} is odd, but rotary positions rotate pairs', 'try {near}'],
  'model/latent/biases': ['latent attention has no biases', leaveOut],
  'model/latent/norms': ['latent attention has no q/k norm', leaveOut],
  'model/rope/low': [
    'low {low} must be below high {high}',
    'high-frequency pairs are kept, low-frequency pairs are slowed down',
  ],
  'model/rope/slow': [
    'slow {slow} must not be above fast {fast}',
    'high-frequency pairs are kept, low-frequency pairs are slowed down',
  ],
  'model/positions': ['seq {seq} > positions {positions} of the model', 'try seq {positions}'],
  'model/size': ['{parameters} parameters exceed 2^53'],
  'model/experts/chosen': ['topK {topK} > experts {experts}', 'try {experts} or less'],
  'model/experts/together': ['groups and topKGroups must be set together', 'set both, or neither'],
  'model/experts/groups': [`experts {experts} % groups {groups} = {rest}${zero}`, 'try {near}'],
  'model/experts/chosen-groups': ['topKGroups {topKGroups} > groups {groups}', 'try {groups} or less'],
  'model/experts/of-groups': [`topK {topK} % topKGroups {topKGroups} = {rest}${zero}`, 'try {near}'],
  'model/experts/too-many': [
    'topK {topK} > experts {experts} / groups {groups} x topKGroups {topKGroups}',
    'lower topK, or raise topKGroups',
  ],
  'model/experts/none': ['none of the {layers} layers is routed', 'lower dense or every'],
  'model/experts/shared': ['the model has no shared expert', 'set shared to its width'],
  'model/experts/group': [`seq {seq} % group {group} = {rest}${zero}`, 'try {near}, or sequence'],
  'model/experts/room': ['experts have a capacity of 0', 'set least, or a larger factor'],
} as const satisfies ProblemPhrases

const meshPhrases = {
  'plan/unsupported/axis': ['not supported yet: {axis} {size}', 'leave {axis} at 1'],
  'plan/ranks': ['{factors} = {ranks} ranks, more than {most}'],
  'plan/order/unknown': ['`{axis}` is not an axis of the mesh', 'list {order} once each, fastest-varying first'],
  'plan/order/twice': ['`{axis}` is listed twice', 'list {order} once each, fastest-varying first'],
  'plan/order/missing': ['{axis} is missing', 'list {order} once each, fastest-varying first'],
  'plan/order/several': ['{axes} are missing', 'list {order} once each, fastest-varying first'],
  'plan/batch': [`globalBatch {globalBatch} % ({divisor} = {pieces}) = {rest}${zero}`, 'try globalBatch {batches}'],
  'plan/batch/fewer': [
    `globalBatch {globalBatch} % ({divisor} = {pieces}) = {rest}${zero}`,
    'try microbatches {fewer}, or globalBatch {batches}',
  ],
  'plan/size': ['{rows} layers x microbatches {microbatches} = {tasks} tasks, more than {most}', 'try {near}'],
  'plan/memory/states': [
    'parameters, gradients and optimizer state need at least {numbers} x {width} bytes x {held} = {bytes} per rank, but a device has {room}',
    '{instead}',
  ],
  'plan/memory/compiled': [
    'pipeline stage {stage} needs {bytes} per rank ({parts}), but a device has {room}',
    '{instead}',
  ],
  '.with-zero': ['with zero {zero} they need {bytes}'],
  '.share': ['shard them over at least {ranks} ranks: with tp x pp (now {now}), or with dp and zero 3'],
  '.with-host': ['with offload.optimizer host they need {bytes}'],
  '.more-ranks': ['a larger tp (now {tp}) or pp (now {pp})'],
  '.try': ['try {what}'],
  '.change': ['{change} ({bytes})'],
  '.several': ['no single change is enough; try {change} ({bytes})'],
  '.spread': ['shard the model over more ranks, with {more}'],
  '.still': ['{change} would still need {bytes}: {instead}'],

  'plan/stages': ['{stages}, but the model has {layers} layers', 'at most {most} stages'],
  'plan/stages/ends': [
    '{stages}, but the model has {layers} layers',
    'at most {most} stages (two more if plan.layers leaves the first and the last empty)',
  ],
  '.stages': ['pp {pp} = {pp} stages'],
  '.stages-of-chunks': ['pp {pp} x chunks {chunks} = {stages} stages'],
  'plan/uneven': [
    'layers {layers} = {parts}: the stage with the most layers limits the step time',
    '{near} stages would be even',
  ],
  'plan/bubble': [
    'microbatches {microbatches} < pp {pp}: the pipeline bubble is about {share} % of the step',
    'with microbatches {more} it would be {less} %',
  ],
  'plan/traffic/gather': [
    'parameters are all-gathered in the forward and backward pass of {microbatches} microbatches: {moved} per rank and step',
    '`gather: step` sends {bytes}, but needs as much memory',
  ],
  'plan/traffic/reduce': [
    'gradients are reduce-scattered after each of {microbatches} microbatches: {moved} per rank and step',
    '`reduce: step` sends {bytes}, but needs as much memory',
  ],
  'plan/batch-ramp/file': [
    'the schedule of {file} is for microbatches {microbatches}, but smaller batches have fewer',
    'try a named schedule',
  ],
  'plan/batch-ramp/end': ['set either until (sequences) or tokens'],
  'plan/batch-ramp/order': [
    'ends after {until} sequences, but batches before it end after {before}',
    'try more than {before}',
  ],
  'plan/batch-ramp/pieces': [
    `globalBatch {globalBatch} % ({whole} / microbatches {microbatches} = {pieces}) = {rest}${zero}`,
    'try {near}',
  ],
  'plan/batch-ramp/of': ['microbatches {microbatches}: {what}', '{instead}'],
} as const satisfies ProblemPhrases

const splitPhrases = {
  'plan/indivisible': ['{what} {size} cannot be split tp {tp} ways', 'try tp {near}'],
  'plan/indivisible/vocab': [
    'vocab {size} cannot be split tp {tp} ways',
    'to train from scratch, pad it to the next multiple of 128 x tp: vocab {padded}; to load weights with {size} tokens, try tp {near}',
  ],
  'plan/indivisible/groups': [
    'tp {tp} = {own} x {more}: kvHeads {kvHeads} can be split {own} ways, but heads / kvHeads = {group} not {more} ways',
    'try tp {near}',
  ],
  'plan/indivisible/sequence': ['seq {seq} cannot be split {ways} ways', 'try seq {next}, or tp {near}'],
  'plan/indivisible/mlp': ['cp {cp} shards sequences, but an mlp has none', 'leave cp at 1'],
  'plan/indivisible/shard': ['dp {dp} % shard {shard} = {rest}, must be 0', 'try shard {near}'],
  'plan/indivisible/cp': [`seq {seq} % cp {cp} = {rest}${zero}`, 'try seq {next}, or cp {near}'],
  'plan/indivisible/zigzag': [`seq {seq} % (2 x {ranks}) = {rest}${zero}`, 'try {fitting}'],
  'plan/indivisible/attention': ['ulysses {ulysses} x ring {ring} = {product}, must be cp {cp}', 'try {fitting}'],
  'plan/indivisible/heads': [
    'heads {heads}{left} cannot be split ulysses {ulysses} ways',
    'try attention {instead}ring or gather',
  ],
  'plan/indivisible/kv-heads': [
    'ulysses {ulysses} = {own} x {more}: kvHeads {kvHeads}{left} can be split {own} ways, but heads / kvHeads = {group} not {more} ways',
    'try attention {instead}ring or gather',
  ],
  '.left': [' per rank (tp {tp})'],
  'plan/documents/none': ['the data has no document boundaries', 'try {fitting}, or zigzag: true'],
  'plan/documents/pad': [`pad {pad} % (2 x {ranks}) = {rest}${zero}`, 'try {fitting}'],
  'plan/documents/pairs': [
    'prompt/completion pairs are never split, and have any number of tokens',
    'try zigzag: true',
  ],

  'plan/experts/none': ['ep {ep} x etp {etp} shard experts, but the model has none', 'leave both at 1'],
  'plan/experts/ranks': [
    `dp {dp} x cp {cp} x tp {tp} = {ranks} % (ep {ep} x etp {etp} = {ways}) = {rest}${zero}`,
    'try {fitting}',
  ],
  'plan/experts/grids': [
    'the meshes tp {tp} x cp {cp} x dp {dp} and etp {etp} x ep {ep} x {copies} do not nest: each of {ends} must divide the next',
    'try {fitting}',
  ],
  'plan/experts/order': ['experts are sharded in the order {usual} only, not {order}', 'leave rankOrder out'],
  'plan/experts/each': [`experts {experts} % ep {ep} = {rest}${zero}`, 'try {fitting}'],
  'plan/experts/width': [`expert ffn {ffn} % etp {etp} = {rest}${zero}`, 'try {fitting}'],
  'plan/experts/rows': [
    `seq {seq} % ({divisor} = {ways}) = {rest}${zero}: every rank dispatches its own tokens to experts`,
    'try seq {next}',
  ],
} as const satisfies ProblemPhrases

export const sizePhrases = { ...modelPhrases, ...meshPhrases, ...splitPhrases } as const
