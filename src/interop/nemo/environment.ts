/** Variables that a script exports for a launcher of NeMo, as the reference runs of MLPerf do. */
import { readMeaning } from '../megatron/meaning.js'
import { Terms } from '../megatron/terms.js'
import type { Given, Imported } from '../note.js'
import { type KeyTable, numberOf, Reading } from '../reading.js'
import { followScript } from '../shell/index.js'

const names: Readonly<Record<string, readonly string[]>> = {
  'tensor-model-parallel-size': ['TENSOR_PARALLEL_SIZE', 'TENSOR_MODEL_PARALLEL', 'TP'],
  'pipeline-model-parallel-size': ['PIPELINE_PARALLEL_SIZE', 'PIPELINE_MODEL_PARALLEL', 'PP'],
  'context-parallel-size': ['CONTEXT_PARALLEL_SIZE', 'CONTEXT_PARALLEL', 'CP'],
  'num-virtual-stages-per-pipeline-rank': ['VIRTUAL_PIPELINE_PARALLEL_SIZE', 'INTERLEAVED_PIPELINE', 'VPP'],
  'expert-model-parallel-size': ['EXPERT_PARALLEL_SIZE', 'EXPERT_PARALLEL', 'EP'],
  'expert-tensor-parallel-size': ['EXPERT_TENSOR_PARALLEL_SIZE', 'ETP'],
  'global-batch-size': ['GBS', 'GLOBAL_BATCH_SIZE'],
  'micro-batch-size': ['MBS', 'MICRO_BATCH_SIZE'],
  'train-iters': ['MAX_STEPS'],
  lr: ['MAX_LR', 'LR'],
  'min-lr': ['MIN_LR'],
  'lr-warmup-iters': ['WARMUP_STEPS', 'LR_WARMUP_STEPS'],
  'lr-decay-iters': ['LR_DECAY_STEPS'],
  'seq-length': ['SEQ_LENGTH', 'SEQ_LEN', 'SEQUENCE_LENGTH'],
  seed: ['SEED'],
}

const known: KeyTable = {
  RECOMPUTE_MODULES: 'recomputed modules: set plan.recompute',
  ...Object.fromEntries(['NNODES', 'GPUS_PER_NODE', 'DGXNNODES', 'DGXNGPU', '*'].map(name => [name, ''])),
}

export function readEnvironment(text: string, given: Given): Imported {
  const { variables } = followScript(text, given)
  const value = Object.fromEntries([...variables].filter(([, one]) => typeof one === 'string'))
  const lines = text.split('\n')
  const lineOf = (name: string) => lines.findIndex(line => new RegExp(`\\b${name}=`).test(line)) + 1 || undefined
  const reading = new Reading({ framework: 'nemo', format: 'script' }, { value, lineOf, twice: [], refused: [] })
  const pathOf = (term: string) => names[term]?.find(name => variables.has(name)) ?? names[term]?.[0] ?? term
  const values = new Map(Object.keys(names).map(term => [term, value[pathOf(term)]]))
  const count = (...of: readonly string[]) => numberOf(of.map(name => value[name]).find(one => one !== undefined))
  const [nodes, each] = [count('NNODES', 'DGXNNODES'), count('GPUS_PER_NODE', 'DGXNGPU')]
  const world = given.world ?? (nodes !== undefined && each !== undefined ? nodes * each : undefined)
  const usual = (term: string) => (term === 'context-parallel-size' ? 1 : undefined)
  readMeaning(new Terms(reading, pathOf, { of: 'NeMo', value: usual }, values), given, world)
  return reading.finish(known)
}
