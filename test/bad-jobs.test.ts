import { deepEqual, equal, ok } from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'
import { parseJob } from '../src/plan/index.js'
import { lockstep } from './memory-io.js'

const parts = {
  model: 'family: llama, layers: 8, embed: 64, heads: 8, kvHeads: 4, ffn: 96, vocab: 128',
  training: 'seq: 32, globalBatch: 16',
  plan: 'dp: 2, microbatches: 4',
}
const write = ({ model, training, plan }: typeof parts) =>
  `model: { ${model} }\ntraining: { ${training} }\nplan: { ${plan} }\n`
const good = write(parts)
/** A good job whose plan, model or training is another. */
const plan = (text: string) => write({ ...parts, plan: text })
const model = (text: string) => write({ ...parts, model: text })
const training = (text: string) => write({ ...parts, training: text })
const gpt = (text: string) => model(`family: gpt, layers: 4, embed: 32, heads: 4, vocab: 64, ${text}`)

/** A text, and everything that is wrong with it: code, path, and a piece of the sentence with its suggestion. */
type Row = readonly [text: string, ...expected: readonly `${string} ${string} | ${string}`[]]

// biome-ignore format: one line is one bad job
const rows: readonly Row[] = [
  // Files that are no job
  ['', 'file/empty - | is empty'],
  [' \n\n\t\n', 'file/empty - | is empty'],
  ['# only a comment\n', 'schema/type - | a job is a mapping'],
  ['null', 'schema/type - | a job is a mapping'],
  ['[1, 2, 3]', 'schema/type - | a job is a mapping'],
  ['just words', 'schema/type - | a job is a mapping'],
  ['42', 'schema/type - | a job is a mapping'],
  ['\0\x01\x02ELF', 'file/binary - | not a text file'],
  ['model: \uFFFD\uFFFD', 'file/binary - | not a text file'],
  ['x'.repeat(10 * 2 ** 20), 'file/size - | 10.00 MiB is too big'],
  ['model: [1, 2', 'file/yaml - | not valid YAML'],
  ['model: {family: llama\nplan: }', 'file/yaml - | not valid YAML', 'file/yaml - | not valid YAML'],
  ['model: "unclosed', 'file/yaml - | closing "quote'],
  ['model:\n\tfamily: llama', 'file/yaml - | tab'],
  ['model: a: b', 'file/yaml - | nested mappings are not allowed'],
  ['{"model": "gpt2",}}', 'file/yaml - | not valid YAML'],
  ['%YAML 9.9\n---\nmodel: gpt2', 'file/yaml - | unsupported YAML version'],
  ['model: !!js/function "x"', 'file/yaml - | unresolved tag'],
  ['model: gpt2\n---\nmodel: gpt2', 'file/documents - | one job per file'],
  ['model: gpt2\nmodel: gpt2', 'file/duplicate model | written twice', 'schema/missing training | what one step is'],
  [plan('tp: 2, dp: 3, tp: 4'), 'file/duplicate plan.tp | `tp` is written twice', 'plan/batch training.globalBatch | dp 3'],
  ['? [a, b]\n: c', 'file/key - | a key must be a word'],
  ['plan: *missing', 'file/alias plan | no anchor `&missing`'],
  ['plan: &a { dp: *a }', 'file/alias plan.dp | `*a` contains itself'],
  [`a0: &a0 [${'1,'.repeat(9)}1]\n${[...Array(9).keys()].map(i => `a${i + 1}: &a${i + 1} [${`*a${i},`.repeat(9)}*a${i}]`).join('\n')}`, 'file/alias - | aliases counted each time'],
  [`a0: &a0 1\n${[...Array(99).keys()].map(i => `a${i + 1}: &a${i + 1} [*a${i}]`).join('\n')}`, 'file/deep - | 64 levels deep'],
  ['['.repeat(100_000), 'file/deep - | 64 levels deep'],
  ['{a: '.repeat(20_000), 'file/deep - | 64 levels deep'],
  ['- '.repeat(50_000), 'file/deep - | 64 levels deep'],
  [`${[...Array(300).keys()].map(i => `${' '.repeat(i)}a:`).join('\n')}`, 'file/deep - | 64 levels deep'],
  [[...Array(9000).keys()].map(i => `k${i}: 1`).join('\n'), 'schema/missing model | preset', 'schema/missing training | step', ...Array.from({ length: 48 }, (_, i) => `schema/key k${i} | unknown key` as const), 'file/more - | and 8952 more'],

  // Shape: what is missing, unknown, or of the wrong kind
  ['{}', 'schema/missing model | a preset', 'schema/missing training | what one step is'],
  ['model:\ntraining: []\nplan: 3', 'schema/type model | got nothing (null)', 'schema/type training | got a list', 'schema/type plan | got 3'],
  [`${good}plann: {}`, 'schema/key plann | did you mean `plan`?'],
  [`${good}name: 7`, 'schema/type name | expected a string, got 7'],
  [plan('tpp: 2'), 'schema/key plan.tpp | unknown key `tpp`; did you mean `tp`?'],
  [plan('tpp: 2, dp: 3'), 'schema/key plan.tpp | did you mean', 'plan/batch training.globalBatch | globalBatch 16 % (microbatches 1 x dp 3 = 3) = 1'],
  [plan('__proto__: { tp: 2 }, constructor: 1'), 'schema/key plan.__proto__ | unknown key `__proto__`', 'schema/key plan.constructor | one of tp, pp'],
  [plan('<<: { tp: 2 }'), 'schema/key plan.<< | unknown key `<<`'],
  [plan('tp: "2"'), 'schema/type plan.tp | expected a number, got the string "2"; write 2 without quotes'],
  [plan('tp: two'), 'schema/type plan.tp | got the string "two"'],
  [plan('tp: [2]'), 'schema/type plan.tp | got a list'],
  [plan('tp: { n: 2 }'), 'schema/type plan.tp | got a mapping'],
  [plan('tp: true'), 'schema/type plan.tp | got true'],
  [plan('tp:'), 'schema/type plan.tp | got nothing (null)'],
  [plan('sequenceParallel: yes'), 'schema/type plan.sequenceParallel | expected true or false, got the string "yes"; write true'],
  [plan('overlap: 1'), 'schema/type plan.overlap | expected true or false'],
  [training('globalBatch: 16'), 'schema/missing training.seq | tokens in a sequence'],
  [training('seq: 32, globalBatch: 16, optimizer: { lr: 1 }'), 'schema/missing training.optimizer.kind | one of adamw or sgd'],
  [training('seq: 32, globalBatch: 16, optimizer: adamw'), 'schema/type training.optimizer | expected a mapping'],
  [training('seq: 32, globalBatch: 16, optimizer: { kind: adam, lr: 1 }'), 'schema/name training.optimizer.kind | did you mean `adamw`?'],
  [training('seq: 32, globalBatch: 16, optimizer: { kind: sgd, lr: 1, beta1: 0.9 }'), 'schema/key training.optimizer.beta1 | one of kind, lr, momentum or weightDecay'],
  [training('seq: 32, globalBatch: 16, optimizer: { kind: adamw }'), 'schema/missing training.optimizer.lr | learning rate'],
  [training('seq: 32, globalBatch: 16, dropout: 0.1'), 'schema/key training.dropout | unknown key'],

  // Names
  ['model: llama3-8\ntraining: { seq: 8, globalBatch: 8 }', 'model/preset model | did you mean `llama3-8b`?'],
  ['model: zzzzzzzzzzzz\ntraining: { seq: 8, globalBatch: 8 }', 'model/preset model | one of gpt2, gpt2-medium'],
  ['model: toString\ntraining: { seq: 8, globalBatch: 8 }', 'model/preset model | unknown model `toString`'],
  ['model: { preset: 7 }\ntraining: { seq: 8 }', 'schema/type model.preset | expected the name of a preset', 'schema/missing training.globalBatch | sequences'],
  ['model: { preset: gpt2, layer: 3 }\ntraining: { seq: 8, globalBatch: 8 }', 'schema/key model.layer | did you mean `layers`?'],
  ['model: ./no.json\ntraining: { seq: 8, globalBatch: 8 }', 'model/file model | ./no.json: no such file'],
  ['model: ./junk.json\ntraining: { seq: 8, globalBatch: 8 }', 'model/file model | not valid JSON'],
  ['model: ./bert.json\ntraining: { seq: 8, globalBatch: 8 }', 'model/unsupported model | ./bert.json: model_type: `bert` is not supported'],
  [model('family: lama, layers: 2'), 'schema/name model.family | did you mean `llama`?'],
  [model('layers: 2, embed: 8'), 'schema/missing model.family | one of mlp, gpt or llama'],
  [model('family: mlp, layers: 2, embed: 8, heads: 2'), 'schema/key model.heads | one of family, layers, embed or ffn'],
  [model('family: llama, layers: 2'), ...['embed', 'heads', 'ffn', 'vocab'].map(key => `schema/missing model.${key} | is missing` as const)],
  [plan('schedule: 1f1bb'), 'schema/name plan.schedule | did you mean `1f1b`?'],
  [plan('schedule: 7'), 'schema/type plan.schedule | or a .csv file, got 7'],
  [plan('schedule: { fil: a.csv }'), 'schema/missing plan.schedule.file | CSV', 'schema/key plan.schedule.fil | did you mean `file`?'],
  [plan('recompute: selectiv'), 'schema/name plan.recompute | did you mean `selective`?'],
  [plan('recompute: [attention, atention]'), 'schema/name plan.recompute[1] | did you mean `attention`?'],
  [plan('recompute: true'), 'schema/type plan.recompute | expected none, selective, full or a list of op names, got true'],
  [plan('gather: always, reduce: never'), 'schema/name plan.gather | one of use or step', 'schema/name plan.reduce | one of microbatch or step'],
  [plan('layers: odd'), 'schema/name plan.layers | unknown layers `odd`'],
  [plan('layers: { frist: 2 }'), 'schema/key plan.layers.frist | did you mean `first`?'],
  [plan('deviceMemory: lots'), 'schema/value plan.deviceMemory | write it like 80GiB'],
  [plan('deviceMemory: [80]'), 'schema/type plan.deviceMemory | such as 80GiB'],
  [plan('order: tp-qq'), 'plan/order plan.order | `qq` is no axis'],
  [plan('order: tp-tp-dp'), 'plan/order plan.order | `tp` is named twice'],
  [plan('order: tp-dp, pp: 2, microbatches: 2'), 'plan/order plan.order | pp is missing'],

  // Words of other frameworks
  [plan('precision: fp16'), 'schema/name plan.precision | f16 and its loss scaling are not supported yet; bf16 takes as many bytes'],
  [plan('precision: bfloat16'), 'schema/name plan.precision | did you mean `bf16`?'],
  [plan('precision: float32'), 'schema/name plan.precision | did you mean `f32`?'],
  [plan('precision: fp8'), 'schema/name plan.precision | 8-bit floats are not supported yet'],
  [plan('schedule: pipedream'), 'schema/name plan.schedule | did you mean `1f1b`?'],
  [plan('schedule: zero-bubble'), 'schema/name plan.schedule | did you mean `zb-h1`?'],
  [plan('recompute: block'), 'schema/name plan.recompute | did you mean `full`?'],
  [plan('zero: stage3'), 'schema/type plan.zero | did you mean `3`?'],
  [plan('gradientAccumulation: 8'), 'schema/key plan.gradientAccumulation | did you mean `microbatches`? (a microbatch has globalBatch / (dp x microbatches) sequences)'],
  [plan('data_parallel: 8, tensor_model_parallel_size: 2'), 'schema/key plan.data_parallel | did you mean `dp`?', 'schema/key plan.tensor_model_parallel_size | did you mean `tp`?'],
  [plan('micro_batch_size: 1, zero_stage: 2'), 'schema/key plan.micro_batch_size | did you mean `microbatches`?', 'schema/key plan.zero_stage | did you mean `zero`?'],
  [plan('offload_optimizer: cpu'), 'schema/key plan.offload_optimizer | offload is not supported yet'],
  [plan('gradient_checkpointing: true, activation_checkpointing: full'), 'schema/key plan.gradient_checkpointing | did you mean `recompute`?', 'schema/key plan.activation_checkpointing | did you mean `recompute`?'],
  [plan('fsdp: true, ddp: 2'), 'schema/key plan.fsdp | did you mean `zero`? (1 splits optimizer state over dp, 2 gradients too, 3 parameters too (FSDP))', 'schema/key plan.ddp | did you mean `dp`?'],
  [training('seq: 32, globalBatch: 16, tp: 2'), 'schema/key training.tp | did you mean `plan.tp`?'],
  [training('seq: 32, globalBatch: 16, learning_rate: 1e-4'), 'schema/key training.learning_rate | did you mean `optimizer.lr`?'],
  [training('seq: 32, global_batch_size: 16'), 'schema/missing training.globalBatch | sequences in one step', 'schema/key training.global_batch_size | did you mean `globalBatch`?'],
  [training('seq: 32, globalBatch: 16, optimizer: { kind: lion, lr: 1 }'), 'schema/name training.optimizer.kind | not supported yet; adamw or sgd'],
  ['model: mixtral-8x7b\ntraining: { seq: 8, globalBatch: 8 }', 'model/preset model | mixture-of-experts models are not supported yet'],
  ['model: meta-llama/Llama-3.1-8B\ntraining: { seq: 8, globalBatch: 8 }', 'model/preset model | a name on the Hugging Face hub'],
  ['model: mistral-7b\ntraining: { seq: 8, globalBatch: 8 }', 'model/preset model | write model: ./config.json'],
  [model('family: gpt, num_hidden_layers: 4, hidden_size: 32, heads: 4, vocab: 64'), 'schema/missing model.layers | blocks', 'schema/missing model.embed | width', 'schema/key model.num_hidden_layers | did you mean `layers`?', 'schema/key model.hidden_size | did you mean `embed`?'],
  [`${good}data: text.txt`, 'schema/type data | write { source: text.txt }'],

  // Files of other frameworks
  ['{"train_batch_size": 256, "gradient_accumulation_steps": 8, "gradient_clipping": 1, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": "auto"}}}',
    'file/foreign - | this is a DeepSpeed configuration, not a job; write a job: { model: ..., training: { seq: ..., globalBatch: 256, clip: 1, optimizer: { kind: adamw, lr: 0.0001 } }, plan: { dp: ..., zero: 2, microbatches: 8, precision: bf16 } }'],
  ['{"train_batch_size": "auto", "zero_optimization": {"stage": 3}}', 'file/foreign - | plan: { dp: ..., zero: 3 }'],
  ['{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096}', 'file/foreign - | this is the Hugging Face configuration of a model (llama), not a job; write a job beside it: { model: ./'],
  ['distributed_type: FSDP\nmixed_precision: bf16', 'file/foreign - | Accelerate'],
  ['device: h100\ndevices: 64', 'file/foreign - | this is a cluster file, not a job; give it to --cluster'],

  // Amounts
  [training('seq: 8q, globalBatch: 16'), 'schema/value training.seq | expected a whole number, such as 8192 or 8k, got `8q`'],
  [training('seq: [8], globalBatch: 0k'), 'schema/type training.seq | such as 8192 or 8k, got a list', 'schema/range training.globalBatch | at least 1'],

  // Numbers out of range
  [plan('dp: 0, tp: -2, zero: 4'), 'schema/range plan.dp | at least 1, got 0', 'schema/range plan.tp | got -2', 'schema/range plan.zero | at most 3, got 4'],
  [plan('tp: 1.5'), 'schema/type plan.tp | expected a whole number, got 1.5'],
  [plan('tp: 1e300'), 'schema/range plan.tp | at most 65536, got 1e+300'],
  [plan('tp: 99999999999999999999'), 'schema/range plan.tp | at most 65536'],
  [plan('tp: .nan'), 'schema/type plan.tp | got NaN'],
  [plan('tp: .inf'), 'schema/type plan.tp | got Infinity'],
  [plan('tp: -.inf'), 'schema/type plan.tp | got -Infinity'],
  [plan('microbatches: 1000000'), 'schema/range plan.microbatches | at most 65536'],
  [plan('layers: [4, -1, 5]'), 'schema/range plan.layers[1] | at least 0, got -1'],
  [plan('deviceMemory: -1'), 'schema/range plan.deviceMemory | more than 0'],
  [training('seq: 0, globalBatch: -4, seed: -1, clip: 0'), ...['seq', 'globalBatch', 'seed', 'clip'].map(key => `schema/range training.${key} | must be` as const)],
  [training('seq: 32, globalBatch: 16, optimizer: { kind: adamw, lr: 0, beta1: 1, eps: 0 }'), ...['lr', 'beta1', 'eps'].map(key => `schema/range training.optimizer.${key} | must be` as const)],
  [gpt('dropout: 1'), 'schema/range model.dropout | less than 1, got 1'],
  [gpt('eps: -1'), 'schema/range model.eps | more than 0'],
  [model('family: llama, layers: 0, embed: -1, heads: 1e9, ffn: 1, vocab: 0'), ...['layers', 'embed', 'heads', 'vocab'].map(key => `schema/range model.${key} | must be` as const)],
  [model('family: llama, layers: 10000, embed: 1048576, heads: 8, ffn: 16777216, vocab: 16777216'), 'model/size model | exceed 2^53'],
  [write({ model: 'family: mlp, layers: 1, embed: 65536', training: 'seq: 1, globalBatch: 65536', plan: 'dp: 65536, tp: 65536', }), 'plan/ranks plan | tp 65536 x dp 65536 = 4294967296 ranks, more than 16777216'],

  // Numbers that do not fit together
  [plan('cp: 2, ep: 2'), 'plan/unsupported plan.cp | not supported yet: cp 2', 'plan/unsupported plan.ep | not supported yet: ep 2'],
  [plan('dp: 3, microbatches: 4'), 'plan/batch training.globalBatch | globalBatch 16 % (microbatches 4 x dp 3 = 12) = 4, must be 0; try globalBatch 12 or 24'],
  [plan('dp: 2, microbatches: 3'), 'plan/batch training.globalBatch | try microbatches 2 or 4, or globalBatch 12 or 18'],
  [plan('dp: 32'), 'plan/batch training.globalBatch | try globalBatch 32'],
  [plan('tp: 3'), 'plan/indivisible plan.tp | tp 3 = 1 x 3: kvHeads 4 can be split 1 ways', 'plan/indivisible plan.tp | vocab 128 cannot be split tp 3 ways; pad it to the next multiple of 128 x tp: vocab 384'],
  [plan('tp: 16'), 'plan/indivisible plan.tp | tp 16 = 4 x 4: kvHeads 4 can be split 4 ways, but heads / kvHeads = 2 not 4 ways; try tp 8'],
  [gpt('ffn: 130').replace(parts.plan, 'tp: 4'), 'plan/indivisible plan.tp | ffn 130 cannot be split tp 4 ways; try tp 2'],
  [gpt('vocab: 50257').replace('vocab: 64, ', '').replace(parts.plan, 'tp: 2'), 'plan/indivisible plan.tp | vocab 50432'],
  [model('family: mlp, layers: 4, embed: 8, ffn: 30').replace(parts.plan, 'tp: 4'), 'plan/indivisible plan.tp | try tp 3 or 5'],
  [model('family: llama, layers: 2, embed: 64, heads: 6, kvHeads: 4, ffn: 8, vocab: 8'), 'model/heads model.kvHeads | heads 6 % kvHeads 4 = 2, must be 0; try 3 or 6', 'model/heads model.heads | embed 64 / heads 6 = 10.67 is no whole headDim; try 4 or 8'],
  [gpt('').replace('heads: 4', 'heads: 5'), 'model/heads model.heads | embed 32 / heads 5 = 6.40'],
  [model('family: llama, layers: 2, embed: 64, heads: 8, headDim: 7, ffn: 8, vocab: 8'), 'model/heads model.headDim | headDim 7 is odd, but rotary positions turn pairs; try 8'],
  [gpt('positions: 16'), 'model/positions training.seq | seq 32 > positions 16'],
  ['model: gpt2\ntraining: { seq: 2048, globalBatch: 8 }', 'model/positions training.seq | try seq 1024'],
  [plan('tp: 2, sequenceParallel: true').replace('seq: 32', 'seq: 33'), 'plan/indivisible plan.sequenceParallel | seq 33 cannot be split tp 2 ways; try seq 34, or tp 1 or 3'],
  [plan('pp: 16, microbatches: 16'), 'plan/stages plan.pp | pp 16 = 16 stages, but the model has 8 layers; at most 8 stages'],
  [plan('pp: 8, microbatches: 8, schedule: interleaved'), 'plan/stages plan.pp | pp 8 x chunks 2 = 16 stages'],
  [plan('pp: 4, microbatches: 4, layers: [2, 2, 4]'), 'plan/layers plan.layers | 3 entries for pp 4 = 4 stages; write 4 numbers with the sum 8'],
  [plan('pp: 4, microbatches: 4, layers: [2, 2, 2, 3]'), 'plan/layers plan.layers | 2 + 2 + 2 + 3 = 9, but the model has 8 layers'],
  [plan('pp: 4, microbatches: 4, layers: [2, 0, 4, 2]'), 'plan/layers plan.layers[1] | only the first and the last stage may hold none'],
  [plan('pp: 4, microbatches: 4, layers: { first: 4, last: 4 }'), 'plan/layers plan.layers | stage 1 would hold 0'],
  [plan('pp: 2, microbatches: 4, layers: { first: 2, last: 2 }'), 'plan/layers plan.layers | 2 + 2 = 4, but the model has 8 layers'],
  [plan('layers: { first: 2 }'), 'plan/layers plan.layers | the only stage holds all 8 layers, not 2'],
  [plan('pp: 2, microbatches: 4, chunks: 2'), 'plan/chunks plan.chunks | schedule 1f1b has chunks 1, got 2; try schedule interleaved'],
  [plan('pp: 2, microbatches: 4, schedule: zb-v, chunks: 1'), 'plan/chunks plan.chunks | schedule zb-v has chunks 2, got 1'],
  [plan('microbatches: 65536').replace('globalBatch: 16', 'globalBatch: 65536').replace('layers: 8', 'layers: 100'), 'plan/size plan.microbatches | 100 layers x microbatches 65536 = 6553600 tasks'],
  ['model: llama3-405b\ntraining: { seq: 8192, globalBatch: 8 }\nplan: { tp: 8, deviceMemory: 80GiB }', 'plan/memory plan.deviceMemory | on a rank, a device has 80.00 GiB; at least 76 ranks must share them: by tp x pp (now 8), or by dp with zero 3'],
  ['model: llama3-8b\ntraining: { seq: 8192, globalBatch: 8 }\nplan: { dp: 2, deviceMemory: 64GiB }', 'plan/memory plan.deviceMemory | 119.66 GiB on a rank, a device has 64.00 GiB; with zero 3 they need 59.83 GiB'],
  ['model: llama3-8b\ntraining: { seq: 8192, globalBatch: 8 }\nplan: { dp: 2, precision: bf16, deviceMemory: 64GiB }', 'plan/memory plan.deviceMemory | 4.5 x 4 bytes x 8.03 B = 134.62 GiB on a rank, a device has 64.00 GiB; at least 3 ranks must share them'],
  ['model: llama3-8b\ntraining: { seq: 8192, globalBatch: 8 }\nplan: { dp: 2, precision: pure-bf16, deviceMemory: 32GiB }', 'plan/memory plan.deviceMemory | 4 x 2 bytes x 8.03 B = 59.83 GiB on a rank, a device has 32.00 GiB; with zero 3 they need 29.92 GiB'],
  [plan('precision: bf61'), 'schema/name plan.precision | did you mean `bf16`?'],
  [plan('precision: f64'), 'schema/name plan.precision | f32'],

  // Data, and how long a run is
  [`${good}data: text.txt`, 'schema/type data | expected a mapping, got the string "text.txt"; write'],
  [`${good}data: { sorce: a.txt }`, 'schema/key data.sorce | did you mean `source`?'],
  [`${good}data: { source: "" }`, 'schema/range data.source | must be at least 1 character'],
  [`${good}data: { source: a.txt, tokenizer: word }`, 'schema/value data.tokenizer | expected bytes, bpe or the path of a tokenizer.json'],
  [`${good}data: { source: a.bin, width: u8 }`, 'schema/name data.width | did you mean `u16`?'],
  [`${good}data: { source: a.txt, evalFraction: 1 }`, 'data/vocab model.vocab | model.vocab 128 < 256 tokens', 'schema/range data.evalFraction | less than 1, got 1'],

  // What the schema refuses in one place does not keep rules from the others
  [plan('dp: 3, zero: 9'), 'plan/batch training.globalBatch | dp 3', 'schema/range plan.zero | at most 3, got 9'],
  [plan('dp: three, zero: 9'), 'schema/type plan.dp | expected a number', 'schema/range plan.zero | at most 3, got 9'],
  [plan('tp: 2, layers: [1, x], microbatches: 5'), 'plan/batch training.globalBatch | microbatches 5', 'schema/type plan.layers[1] | expected a number'],
  [`${good}data: { source: a.txt }`, 'data/vocab model.vocab | model.vocab 128 < 256 tokens of tokenizer bytes; try vocab 256'],
  [`${good}data: { source: a.txt, tokenizer: bpe }`, 'data/vocab model.vocab | model.vocab 128 < 257 tokens of tokenizer bpe; try vocab 257'],
  [`${good}data: { source: a.txt, tokenizer: bpe, vocab: 512 }`, 'data/vocab model.vocab | model.vocab 128 < 512 tokens'],
  [`${good}data: { source: a.txt, tokenizer: bpe, vocab: 100 }`, 'data/vocab data.vocab | a bpe has 256 bytes + 1 end of text = 257 tokens, got 100'],
  [`${model('family: mlp, layers: 4, embed: 8')}data: { source: a.txt }`, 'data/family data.source | an mlp learns from vectors, but `a.txt` holds tokens; try source synthetic'],
  [training('seq: 32, globalBatch: 16, steps: 0, evalEvery: -1, evalBatches: 1.5'), 'schema/range training.steps | at least 1, got 0', 'schema/range training.evalEvery | at least 0', 'schema/type training.evalBatches | whole number'],
  [training('seq: 32, globalBatch: 16, lrSchedule: cosine'), 'schema/type training.lrSchedule | expected a mapping'],
  [training('seq: 32, globalBatch: 16, lrSchedule: { kind: cosin }'), 'schema/name training.lrSchedule.kind | did you mean `cosine`?'],
  [training('seq: 32, globalBatch: 16, lrSchedule: { kind: linear, warmup: -1 }'), 'schema/range training.lrSchedule.warmup | at least 0'],
  [training('seq: 32, globalBatch: 16, lrSchedule: { kind: linear, minLr: 1 }'), 'training/lr training.lrSchedule.minLr | minLr 1 > lr 0.001 of the optimizer; try 0.0001'],
]

const files: Readonly<Record<string, string>> = {
  './junk.json': '{"model_type": ',
  './bert.json': '{"model_type": "bert"}',
}
const readModel = (path: string) => {
  if (!Object.hasOwn(files, path)) throw new Error('no such file')
  return files[path]
}
const title = (text: string) => JSON.stringify(text.replace(good, 'good ').trim().slice(-90)).slice(1, -1)

for (const [text, ...expected] of rows)
  test(`bad: ${title(text)}`, () => {
    const started = performance.now()
    const { job, problems } = parseJob(text, { readModel })
    ok(performance.now() - started < 10_000, 'slow')
    equal(job, undefined)
    const errors = problems.filter(p => p.severity === 'error')
    const wanted = expected.map(e => /^(\S+) (\S+) \| (.*)$/s.exec(e)!.slice(1))
    const path = (p: string) => (p === '' ? '-' : p)
    const shown = errors.map(p => `${p.code} ${path(p.path)}`)
    deepEqual(
      shown.sort(),
      wanted.map(([code, p]) => `${code} ${p}`).sort(),
      JSON.stringify(problems, null, 1).slice(0, 2000),
    )
    for (const [code, p, fragment] of wanted) {
      const sentences = errors
        .filter(e => e.code === code && path(e.path) === p)
        .map(e => `${e.message}; ${e.suggestion}`)
      ok(
        sentences.some(sentence => sentence.includes(fragment)),
        `${fragment}\nnot in\n${sentences.slice(0, 9).join('\n')}`,
      )
    }
    for (const { line, column, message } of problems) {
      ok(Number.isInteger(line) && line! >= 1 && Number.isInteger(column) && column! >= 1, 'no place')
      ok(!message.includes('\n') && message.length < 400, message)
    }
  })

test(`there are ${rows.length} bad jobs, and the good one is good`, () => {
  ok(rows.length >= 60)
  deepEqual(parseJob(good).problems, [])
})

test('through the command line each is exit code 1, with its lines and no stack trace', async () => {
  for (const [text] of rows.filter(([text]) => text.length < 10_000)) {
    const { code, out, err } = await lockstep(['check', 'job.yaml'], { ...files, 'job.yaml': text })
    equal(code, 1)
    equal(err, '')
    ok(/^job\.yaml:\d+:\d+: (error|warning): /.test(out), out)
    ok(!/internal:|\n {4}at /.test(out), out)
    const json = JSON.parse((await lockstep(['check', '--json', 'job.yaml'], { 'job.yaml': text })).out)
    ok(json.ok === false && json.problems.length > 0)
  }
})

test('problems point at the key or the value that is wrong', () => {
  const places = (text: string) => parseJob(text).problems.map(p => `${p.line}:${p.column} ${p.path}`)
  deepEqual(places('model: gpt2\ntraining:\n  seq: 8\n  globalBatch: "8?"\nplan:\n  tpp: 2\n  layers: [1, -1]\n'), [
    '4:16 training.globalBatch',
    '6:3 plan.tpp',
    '7:15 plan.layers[1]',
  ])
  deepEqual(places('model: gpt2\n\ntraining:\n  seq: 8\n'), ['3:1 training.globalBatch'])
  deepEqual(places('{"model": "gpt2",\n "training": {"seq": 8,\n "globalBatch": 7}, "plan": {"dp": 2}}'), [
    '3:17 training.globalBatch',
  ])
})

test('files that cannot be read are problems too', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-'))
  const outs: string[] = []
  const io = { ...processIo(), out: (text: string) => void outs.push(text) }
  writeFileSync(join(folder, 'big.yaml'), Buffer.alloc(10 * 2 ** 20, 'a: b\n'))
  writeFileSync(join(folder, 'binary.yaml'), Buffer.from([0x7f, 0x45, 0xff, 0xfe, 0, 1]))
  writeFileSync(join(folder, 'folder.yaml'), `model: ./\ntraining: { seq: 8, globalBatch: 8 }`)
  for (const name of [
    'none.yaml',
    '',
    'big.yaml',
    'binary.yaml',
    `${'x'.repeat(5000)}.yaml`,
    'big.yaml/x',
    'folder.yaml',
  ])
    equal(await run(['check', join(folder, name)], io), 1, name)
  rmSync(folder, { recursive: true })
  const reasons = [
    'no such file',
    'is a directory',
    'is too big',
    'not a text file',
    'the name is too long',
    'no such file',
    'unknown model',
  ]
  for (const [i, reason] of reasons.entries()) ok(outs[i].includes(reason), outs[i].slice(-300))
})

/** Texts near a good one: pieces cut, doubled, swapped, or replaced by what breaks parsers. */
const nasty = [
  '[',
  ']',
  '{',
  '}',
  ':',
  '- ',
  '? ',
  '&a ',
  '*a',
  '!!x ',
  '|\n',
  '>',
  '"',
  "'",
  '#',
  '\t',
  '\n',
  '%',
  '---\n',
  '0',
  '-1',
  '1e99',
  '.nan',
  'null',
  '~',
  '<<: ',
  '__proto__',
  '\uFEFF',
  '\u2028',
  'é',
  '💥',
  ',',
  '@',
  '`',
]
const mutation = fc.record({
  at: fc.nat(400),
  cut: fc.nat(12),
  put: fc.oneof(fc.constantFrom(...nasty), fc.string({ maxLength: 6 })),
})
const seed = Number(process.env.SEED ?? 7)

test(`mutated jobs never throw and are quick (SEED=${seed})`, () => {
  const property = fc.property(fc.array(mutation, { minLength: 1, maxLength: 8 }), mutations => {
    const text = mutations.reduce(
      (t, { at, cut, put }) => t.slice(0, at % t.length) + put + t.slice((at % t.length) + cut) || ' ',
      good,
    )
    const started = performance.now()
    const { job, problems } = parseJob(text, { readModel })
    ok(performance.now() - started < 5000)
    ok(job !== undefined || problems.some(p => p.severity === 'error'))
    ok(problems.every(p => !/[\p{Cc}]/u.test(p.message + p.path + p.suggestion)))
  })
  fc.assert(property, { numRuns: 1000, seed })
})

test(`any value in place of a job never throws (SEED=${seed})`, () => {
  const field = fc.constantFrom(
    'model',
    'training',
    'plan',
    'dp',
    'layers',
    'family',
    'schedule',
    'optimizer',
    'preset',
    'seq',
  )
  const value = fc.letrec(tie => ({
    any: fc.oneof(
      { maxDepth: 4 },
      fc.jsonValue(),
      fc.double(),
      fc.dictionary(field, tie('any')),
      fc.constantFrom('llama', 'gpt', '1f1b', 'gpt2'),
    ),
  })).any
  fc.assert(
    fc.property(value, v => void parseJob(JSON.stringify(v) ?? '', { readModel })),
    { numRuns: 300, seed },
  )
})
