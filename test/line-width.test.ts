/** What commands print fits a terminal of 100 columns, and counts have nouns in the right number. Schedules, programs and JSON are data. */
import { deepEqual, equal } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe } from 'node:test'
import { nodeFiles } from '../src/node/index.js'
import { later, test } from './families.js'
import { lockstep } from './memory-io.js'

const names = ['start', 'experts', 'llama3-70b', 'long-context', 'documents'] as const
const files = Object.fromEntries(
  names.map(name => [`${name}.yaml`, readFileSync(`examples/jobs/${name}.yaml`, 'utf8')]),
)

files['pretrain.sh'] =
  'torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 --vocab-size 50304 ' +
  '--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 32 --bf16 --lr 1e-4 --train-iters 10 --data-path text_document'

/** Counts of one with a plural noun, or the other way around. */
const wrongPlural =
  /(?<![\d.,x*/^-] ?)\b1 (?:ranks|stages|steps|layers|microbatches|sequences|tokens|plans|functions|violations|parameters|rows|devices|GPUs|nodes)\b|(?<![\d.,])\b[2-9] (?:rank|stage|step|layer|microbatch|plan|function|violation|device|node)\b(?!s|-| [a-z]+s\b)/

const checked = async (line: string) => {
  const read = (path: string) => files[path] ?? readFileSync(path, 'utf8')
  const { list } = nodeFiles()
  const { code, out, err } = await lockstep(line.split(' '), files, { read, list })
  equal(code, 0, err)
  const lines = `${out}${err}`.split('\n')
  deepEqual(
    lines.filter(text => [...text].length > 100),
    [],
  )
  deepEqual(
    lines.filter(text => wrongPlural.test(text)),
    [],
  )
}

const large = '--model llama3-8b --cluster h100 --devices 64 --seq 8192 --global-batch 128'
const commands = [
  ...names.flatMap(name => [`memory ${name}.yaml --why`, `simulate ${name}.yaml --cluster h100`]),
  'check llama3-70b.yaml',
  'compile start.yaml',
  'explain start.yaml --cluster h100',
  'explain llama3-70b.yaml --cluster h100',
  'verify experts.yaml',
  ...['case', 'case llama3-405b-8k', 'case megatron-1t', 'case yi-34b', 'validate'],
  ...['models', 'models llama3-8b', 'models deepseek-v3', 'models mixtral-8x7b'],
  ...[
    'config job',
    'config cluster',
    'config job plan.zero',
    'cluster list',
    'cluster show h100',
    'cluster show tpu-v5p',
  ],
  `plan ${large} --quick`,
  'plan --model llama3-70b --cluster h100 --devices 512 --seq 8192 --global-batch 512 --quick',
  'plan experts.yaml --cluster h100 --no-simulate',
  `scale --model llama3-8b --cluster h100 --devices 8,64 --seq 8192 --global-batch 128`,
  'cost all-reduce --size 1GiB --ranks 64 --cluster h100',
  'groups --devices 64 --tp 8 --pp 2',
  'schedule 1f1b --pp 4 --microbatches 4',
  'schedule zb-v --pp 4 --microbatches 8',
  'import pretrain.sh',
  'explain pretrain.sh --cluster h100 --devices 16',
  '--help',
]

/** Commands that search or read all measured rows. */
const isSlow = (line: string) => /^(explain|plan|scale|validate|verify|case )/.test(line)

describe('lines of at most 100 columns', () => {
  for (const line of commands) (isSlow(line) ? later : test)(`lockstep ${line}`, () => checked(line))
})
