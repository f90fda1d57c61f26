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
import { later } from './share.js'

const root = mkdtempSync(join(tmpdir(), 'lockstep-kill-'))
after(() => rmSync(root, { recursive: true, force: true }))

const seed = Number(process.env.SEED ?? 1)
const kills = Number(process.env.KILLS ?? 3)
/** More than any life gets through. */
const steps = 40 * kills

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

/** `lockstep train`, which is killed so many milliseconds after its first step. */
async function lived(args: readonly string[], killedAfter?: number): Promise<Life> {
  const child = spawn(process.execPath, ['bin/lockstep.mjs', 'train', job, '--json', ...args])
  const numbers = new Map<number, string>()
  let [said, line] = ['', '']
  let armed = false
  child.stderr.on('data', text => void (said += text))
  child.stdout.on('data', (text: Buffer) => {
    const lines = `${line}${text}`.split('\n')
    line = lines.pop() ?? ''
    for (const { step, loss, gradientNorm, event } of lines.map(one => JSON.parse(one)))
      if (event === undefined && loss !== undefined) numbers.set(step, `${loss} ${gradientNorm}`)
    if (!armed && killedAfter !== undefined && numbers.size > 0) setTimeout(() => child.kill('SIGKILL'), killedAfter)
    armed ||= numbers.size > 0
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

later(`${kills} times killed and resumed (seed ${seed}): the same losses, norms, parameters and moments`, async () => {
  const [calm, saved] = [join(root, 'calm'), join(root, 'saved')]
  const expected = await lived(['--save', calm, '--out', join(root, 'calm-run')])
  equal(expected.code, 0, expected.said)
  const random = uniform({ seed, name: 'kills' })
  let reached = 0
  let resumed = 0
  for (let i = 0; ; i++) {
    const from = newestIn(saved)
    const args = ['--save', saved, '--save-every', '1', '--keep', '3', '--out', join(root, `run${i}`)]
    const life = await lived(
      [...args, ...(from > 0 ? ['--resume', saved] : [])],
      i < kills ? 400 * random(i) : undefined,
    )
    const [first] = life.numbers.keys()
    ok(life.code === null || life.code === 0, life.said)
    equal(first, from + 1, `resumed after step ${from}: ${life.said}`)
    for (const [step, said] of life.numbers) equal(said, expected.numbers.get(step), `step ${step} of life ${i}`)
    if (i > 0) resumed++
    reached = Math.max(reached, ...life.numbers.keys())
    if (life.code === 0) break
  }
  equal(reached, steps)
  deepEqual(tensorsIn(saved), tensorsIn(calm))
  process.stderr.write(`# ${resumed} of ${resumed} resumed\n`)
})

/** The step after which a run goes on; 0 where there is nothing yet. */
const newestIn = (folder: string): number =>
  nodeFiles().exists(folder) ? (newestGood(folder, nodeFiles()).good?.checkpoint.step ?? 0) : 0
