/** What `emit` tells whoever runs it: its data, the command to start with, and whose program it would overwrite. */
import { doesNotMatch, equal, match } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { lockstep } from './memory-io.js'

const job = (name: string, more = '') =>
  `name: ${name}\nmodel: { family: gpt, layers: 2, embed: 8, heads: 2, ffn: 8, vocab: 300 }\ntraining: { seq: 4, globalBatch: 4 }\nplan: { pp: 2, microbatches: 2 }\n${more}`

const written = (name: string, more = '') =>
  lockstep(['emit', 'job.yaml', '--out', 'run'], {
    'job.yaml': job(name, more),
    'text.txt': 'to be or not to be '.repeat(40),
  })

test('synthetic data is announced by emit and by the README, real data is named', async () => {
  const synthetic = await written('small')
  match(synthetic.out, /^data: SYNTHETIC, .*data\.source/m)
  match(synthetic.written['run/README.md'], /Data: \*\*SYNTHETIC\*\*/)
  const real = await written('small', 'data: { source: text.txt, tokenizer: bytes }')
  match(real.out, /^data: text\.txt/m)
  doesNotMatch(real.out + real.written['run/README.md'], /synthetic/i)
})

test('the next command starts launch.sh where ranks fit one node, else Slurm or every node', async () => {
  match((await written('small')).out, /^next: cd run && sh launch\.sh /m)
  const files = {
    'job.yaml': job('wide').replace('globalBatch: 4', 'globalBatch: 64').replace('pp: 2', 'pp: 2, dp: 8'),
  }
  const { out } = await lockstep(['emit', 'job.yaml', '--out', 'run'], files)
  match(out, /^next: cd run && sbatch slurm\.sbatch .*\nwithout Slurm, on each node: NNODES=2 NODE_RANK=n/m)
  doesNotMatch(out, /&& sh launch/)
})

test('the program of another job is overwritten with --force only; that of the same job is replaced', async () => {
  const before = (await written('small')).written
  const again = (text: string, ...more: string[]) =>
    lockstep(['emit', 'job.yaml', '--out', 'run', ...more], { ...before, 'job.yaml': text })
  equal((await again(job('small').replace('pp: 2', 'tp: 2'))).code, 0, 'the same job under another plan')
  const renamed = await again(job('other'))
  equal(renamed.code, 1)
  match(renamed.err, /run holds the program of the job small.*--force/)
  const remodeled = await again(job('small').replace('ffn: 8', 'ffn: 16'))
  equal(remodeled.code, 1)
  match(remodeled.err, /another model under the name small/)
  const forced = await again(job('other'), '--force')
  equal(forced.code, 0, forced.err)
  equal(JSON.parse(forced.written['run/run.json']).title, 'other')
})

test('launch.sh names a missing PyTorch before it starts anything; --help describes the script without it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-launch-'))
  writeFileSync(join(folder, 'launch.sh'), (await written('small')).written['run/launch.sh'])
  // A Python without packages: `sh` fails on every program, as Python does without torch.
  const run = (...words: string[]) =>
    spawnSync('sh', ['launch.sh', ...words], {
      cwd: folder,
      encoding: 'utf8',
      env: { ...process.env, PYTHON: 'false' },
    })
  const { status, stderr } = run()
  equal(status, 2)
  match(stderr, /^lockstep: \S+: false has no PyTorch: install it, or set PYTHON to a Python that has it\n$/)
  const help = run('--help')
  match(help.stdout, /^Starts the 2 ranks of this folder/)
  match(help.stderr, /has no PyTorch/)
  rmSync(folder, { recursive: true })
})
