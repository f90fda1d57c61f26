/** What rules of a job say, in English: the name of a phrase begins with the code of its problem; one with a dot stands within others. */
import { memoryPhrases, type ProblemPhrases, phrasing } from '../base/index.js'
import { modelPhrases } from '../model/phrases.js' // without the schemas beside them: words of commands are said before these are loaded
import { jobPhrases } from './phrases-files.js'
import { hintPhrases } from './phrases-hints.js'
import { sizePhrases } from './phrases-sizes.js'

const lost16 = 'f16 has nothing between 0 and 2^-24: gradients below it are lost unless they are scaled'
const leaveOut = 'leave it out'

const rulePhrases = {
  'plan/no-effect/with': ['has no effect with {why}'],
  'plan/no-effect/below': ['has no effect below zero {zero}'],
  'plan/no-effect/zero': ['zero {zero} has no effect with dp 1'],
  'plan/no-effect/recompute': ['this {family} has no {absent}', 'it has {has}'],
  'plan/no-effect/compress': ['has no effect where dp and cp are 1: nothing crosses the data axes'],
  'plan/no-effect/parameters': ['{gather}: parameters are {dtype} already'],
  'plan/no-effect/gradients': ['{reduce}: gradients are {dtype} already'],

  'plan/layers/entries': ['{entries} entries for {stages}', 'write {count} numbers with the sum {layers}'],
  'plan/layers/only': ['the only stage holds all {layers} layers, not {wrong}', 'leave plan.layers out'],
  'plan/layers/sum': ['{parts} = {sum}, but the model has {layers} layers', 'the sum must be {layers}'],
  'plan/layers/none': [
    'stage {stage} would hold {held} of {parts} layers',
    'only the first and the last stage may hold none',
  ],
  'plan/chunks/looped': ['schedule {schedule} has chunks {chunks}, got {got}', 'try schedule {looped}'],
  'plan/chunks/fixed': ['schedule {schedule} has chunks {chunks}, got {got}', 'leave chunks out'],
  'plan/schedule/even': ['{schedule} is made for pp % 2 = 0, got pp {pp}', 'try {near}'],
  'plan/schedule/pairs': ['{schedule} is made for microbatches % 2 = 0, got {microbatches}', 'try {near}'],
  'plan/schedule/fill': [
    '{schedule} fills the pipeline from microbatches = 2 x pp = {least}, got {microbatches}',
    'try {least}',
  ],

  'plan/offload': [
    'under ZeRO-{zero} the device keeps whole parameters from step to step: nothing would bring them from the {space}',
    'try zero 3',
  ],

  'plan/unwise/full': [
    'full recompute saves little under {schedule}: what the input gradient computes again stays alive until the weight gradient',
    'try selective, or 1f1b',
  ],
  'plan/unwise/sequence': [
    '{schedule} splits backward in two, and both parts gather the output gradient over tp: 6 all-gathers a layer instead of 4',
    'try 1f1b or interleaved',
  ],
  'plan/unwise/f16': [lost16, 'set training.lossScale, or try bf16'],
  'plan/unwise/nothing-crosses': [
    '{reduce}: nothing crosses {axes}, and gradients become coarser all the same',
    'leave reduce out',
  ],
  '.data-axes': ['the data axes'],
  'plan/unwise/ratio': [
    'ratio {ratio} x dp {dp} = {product}, from 1 on no fewer bytes are sent than by an all-reduce of all numbers',
    'try less than {less}',
  ],
  'plan/unwise/sums': [
    '{microbatches} microbatches are added up in bf16, in which a sum of {most} numbers that are alike grows no further',
    'try f32',
  ],

  'plan/precision/f16': [lost16, 'set training.lossScale to {scaler}, or try bf16, which needs none'],
  'plan/precision/gradients-f16': [
    'gradients are made from f16: in {asked} they would keep their range, and lose digits that f16 has',
    'set it to {can}, or precision to bf16',
  ],
  'plan/precision/gradients': [
    'gradients are made from {dtype}: in {asked} they would lose digits and save nothing else',
    'set it to {can}, or precision to bf16',
  ],
  'plan/precision/rounding-f32': [
    'parameters are f32: there is nothing that chance could save',
    'set precision to bf16-no-masters or pure-bf16, or leave rounding out',
  ],
  'plan/precision/rounding': [
    'masters in f32 keep what a parameter in {dtype} cannot: there is nothing that chance could save',
    'set precision to bf16-no-masters or pure-bf16, or leave rounding out',
  ],
  'plan/unsupported/adafactor': ['adafactor rounds to the nearest alone', 'choose another optimizer'],
  'plan/precision/codes': [
    'products read codes of what is kept in bf16; precision {precision} keeps {dtype}',
    'set plan.precision to bf16 or pure-bf16',
  ],
  'plan/precision/side': [
    '{name} = {size} is no multiple of {side}: a GPU multiplies what codes stand for, and gains nothing',
    'try {next}',
  ],
  '.tokens': ['tokens of a rank'],
  'plan/precision/experts': [
    'products of {count} experts stay in {dtype}: only those of attention, and of what every token meets, read codes',
    'set plan.fp8.experts to true, and theirs do',
  ],
  'plan/precision/rows': [
    'a GPU multiplies in {dtype} what codes of rows in blocks stand for, and gradients of weights of experts are made from {dtype}: codes gain nothing there',
    'set the recipe to current or delayed, or experts to false',
  ],
  'plan/precision/no-experts': ['the model has no experts', leaveOut],
  'plan/precision/mx': [
    'mx keeps the exponent of a scale and nothing else: exact = greatest code / greatest number is no power of two',
    'set scales to powers, or the recipe to blocks',
  ],
  'plan/precision/delayed': ['scales of the steps before are exact, whatever this says'],
  'plan/precision/documents': [
    'documents are cut one by one, so what lies in a block of tokens would depend on cp',
    'set plan.zigzag to true, or the recipe to current',
  ],
  'plan/precision/block': ['a GPU multiplies blocks of {usual}; of others what codes stand for', 'leave it at {usual}'],
  'plan/precision/cut': [
    '{name} {size} / ({by}) = {each} is no multiple of {whole}: the split would cut a block of {block}',
    'try {name} {next}, or the recipe current',
  ],

  'plan/compress/exact-copy': [
    'zero {zero} keeps the only exact copy of a parameter where the whole is gathered: gather {gather} would round it',
    'set zero to 3, or leave gather out',
  ],
  'plan/compress/cuts': [
    'int8: results depend on how ranks cut parameters, so they change with dp, cp and tp (now {dp}, {cp} and {tp})',
    'bf16 loses digits alone, whatever the plan',
  ],
  'plan/compress/virtual': ['{ranks} ranks, but only one rank can do what others would', 'leave virtual out'],
  'plan/compress/once': [
    '{reduce} sends a gradient once a step, but with zero {zero} each microbatch scatters its own',
    'set reduce to step, or zero to 1',
  ],
  'plan/compress/f32': [
    'what {reduce} does not send is added to the next gradient in f32, but gradients are {dtype}',
    'set gradients to f32',
  ],
  'plan/compress/device': [
    'what {reduce} does not send is needed on the device, but states of the optimizer are on the {space}',
    'leave offload.optimizer out',
  ],
  'plan/compress/adam': [
    'onebit sends the mean of gradients that Adam keeps, but the optimizer is {optimizer}',
    'set training.optimizer.kind to adamw, or try topk',
  ],
  'plan/compress/uncorrected': [
    'with onebit v stands still, and what corrects it for its start would go on: steps would change their length',
    'set uncorrected to true',
  ],
  'plan/compress/option': [
    'onebit sends the mean of gradients alone, as AdamW keeps it, but {option} is set',
    'leave {option} out',
  ],
  'plan/compress/part': [
    'onebit: every rank makes its addend of all of m, and zero {zero} leaves it a part: the others are gathered each step, 4 bytes a parameter',
    'zero 0 sends signs alone',
  ],
  'plan/compress/from': [
    'v stands still from step 0 on, when it is 0, and nothing would move',
    'set from to the step at which the learning rate has risen, or {enough}',
  ],
  'plan/compress/early': [
    '1-bit Adam needs a warm-up: from step {from} on v stays at {percent} % of the mean square of gradients (beta2 {beta2}), so steps stay {times} times as long as those of Adam, and the run may diverge',
    'set from to {enough}, or beta2 lower',
  ],
  'plan/compress/zigzag': [
    'powersgd keeps a residual of learned positions; with a zigzag each rank holds two separate runs of it, which checkpoints cannot hold',
    'set zigzag to false, or try topk',
  ],
  'plan/compress/clip': [
    'from step {from} on no gradient meets the others: clip {clip} shortens the mean m, whose norm is that of the step',
  ],
  'plan/compress/sequences': [
    '{reduce}: every addend must be the gradient of whole sequences, but cp {cp} shares them out',
    'set cp to 1, or try bf16',
  ],
  'plan/compress/experts': [
    "{reduce}: with {axis} {size} gradients of experts are those of several ranks' tokens, and are sent as they are",
  ],
  'plan/compress/both-ends': [
    '{reduce}: with {schedule} two ranks hold every stage, whose gradients are added up once more and cannot be sent so',
    'choose another schedule, or try bf16',
  ],
  'plan/compress/balance': [
    '{reduce}: what balances experts within a microbatch is a number of all ranks, which no addend has alone',
    'leave model.moe.loss.microbatch out, or try bf16',
  ],
  'plan/compress/addends': [
    '{reduce}: results depend on which rank adds what, so they change with dp and tp (now {dp} and {tp})',
    'bf16 loses digits alone, whatever the plan',
  ],
  'plan/compress/addends-kept': [
    '{reduce}: results depend on which rank adds what, so they change with dp and tp (now {dp} and {tp})',
    'powersgd keeps back the same, whatever the plan',
  ],
} as const satisfies ProblemPhrases

export const planPhrases = {
  ...{ ...memoryPhrases, ...modelPhrases, ...rulePhrases },
  ...{ ...sizePhrases, ...jobPhrases, ...hintPhrases },
} as const

export type PlanPhrases = typeof planPhrases

export const { refused, advised, clause } = phrasing(planPhrases)
