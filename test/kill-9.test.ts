/**
 * A process that is killed, at any moment, while it writes as well: what is resumed from the folder goes on as if nothing had
 * happened, to the bit. `KILLS=200 LOCKSTEP_TESTS=all npm test -- kill-9`.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { uniform } from '../src/base/index.js'
import { nodeFiles } from '../src/node/index.js'
import { newestGood } from '../src/train/index.js'
import { later } from './families.js'

const root = mkdtempSync(join(tmpdir(), 'lockstep-kill-'))
after(() => rmSync(root, { recursive: true, force: true }))

const seed = Number(process.env.SEED ?? 1)
const kills = Number(process.env.KILLS ?? 1)
const steps = 40

const job = join(root, 'job.yaml')
writeFileSync(
  job,
  [
    'model: { family: gpt, layers: 2, embed: 16, heads: 2, ffn: 32, vocab: 16, dropout: 0.1 }',
    `training: { seq: 8, globalBatch: 4, clip: 1, steps: ${steps}, lrSchedule: { kind: cosine, warmup: 3 } }`,
    'plan: { dp: 2, zero: 1 }',
  ].join('\n'),
)

interface Life {
  /** Step -> what it computed. */
  readonly numbers: ReadonlyMap<number, string>
  readonly code: number | null
  readonly said: string
}

/** So many milliseconds after its start, or after its first step. */
interface Death {
  readonly after: 'start' | 'step'
  readonly milliseconds: number
}

/** `lockstep train`, which is killed. */
async function lived(args: readonly string[], death?: Death): Promise<Life> {
  const child = spawn(process.execPath, ['bin/lockstep.mjs', 'train', job, '--json', ...args])
  const numbers = new Map<number, string>()
  let [said, line] = ['', '']
  let armed = false
  const arm = (when: Death['after']) => {
    if (death?.after !== when || armed) return
    armed = true
    setTimeout(() => child.kill('SIGKILL'), death.milliseconds)
  }
  arm('start')
  child.stderr.on('data', text => void (said += text))
  child.stdout.on('data', (text: Buffer) => {
    const lines = `${line}${text}`.split('\n')
    line = lines.pop() ?? ''
    for (const { step, loss, gradientNorm, event } of lines.map(one => JSON.parse(one)))
      if (event === undefined && loss !== undefined) numbers.set(step, `${loss} ${gradientNorm}`)
    if (numbers.size > 0) arm('step')
  })
  return { numbers, said, code: await ended(child) }
}

const ended = (child: ChildProcess): Promise<number | null> =>
  new Promise(resolve => child.on('close', code => resolve(code)))

/** All that a checkpoint holds. */
function tensorsIn(folder: string): Map<string, string> {
  const { good, damaged } = newestGood(folder, nodeFiles())
  ok(good)
  deepEqual(damaged, [])
  equal(good.checkpoint.step, steps)
  const bits = (name: string) => Buffer.from(good.checkpoint.tensor(name).buffer).toString('hex')
  return new Map([...good.checkpoint.tensors.keys()].sort().map(name => [name, bits(name)]))
}

/** While it starts and loads, one in five; else among its steps and checkpoints. */
function deathOf(kill: number): Death {
  const random = uniform({ seed, name: `kill ${kill}` })
  return random(0) < 0.2
    ? { after: 'start', milliseconds: 2000 * random(1) }
    : { after: 'step', milliseconds: 300 * random(1) }
}

later(`${kills} times killed and resumed (seed ${seed}): the same losses, norms, parameters and moments`, async () => {
  const calm = join(root, 'calm')
  const expected = await lived(['--save', calm, '--out', join(root, 'calm-run')])
  equal(expected.code, 0, expected.said)
  let [killed, resumed] = [0, 0]
  for (let run = 0; killed < kills; run++) {
    const saved = join(root, `saved${run}`)
    for (let life = 0, code: number | null = null; code === null; life++) {
      const from = newestIn(saved)
      const args = ['--save', saved, '--save-every', '1', '--keep', '3', '--out', join(root, `run${run}-${life}`)]
      const death = killed < kills ? deathOf(killed) : undefined
      const lives = await lived([...args, ...(from > 0 ? ['--resume', saved] : [])], death)
      code = lives.code
      ok(code === null || code === 0, lives.said)
      const [first = from + 1] = lives.numbers.keys()
      equal(first, from + 1, `resumed after step ${from}: ${lives.said}`)
      for (const [step, said] of lives.numbers) equal(said, expected.numbers.get(step), `step ${step} of life ${life}`)
      if (code === null) killed++
      if (life > 0) resumed++
    }
    deepEqual(tensorsIn(saved), tensorsIn(calm))
  }
  process.stderr.write(`# ${killed} times killed, ${resumed} of ${resumed} resumed\n`)
})

/** The step after which a run goes on; 0 where there is nothing yet. */
const newestIn = (folder: string): number =>
  nodeFiles().exists(folder) ? (newestGood(folder, nodeFiles()).good?.checkpoint.step ?? 0) : 0
