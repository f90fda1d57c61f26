/** `lockstep train --keep-going`: what it writes, and what it does when it is interrupted while it starts again. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type Io, processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'

const root = mkdtempSync(join(tmpdir(), 'lockstep-keep-'))
after(() => rmSync(root, { recursive: true, force: true }))
const at = (...names: string[]) => join(root, ...names)

writeFileSync(
  at('job.yaml'),
  [
    'model: { family: mlp, layers: 2, embed: 4 }',
    'training: { seq: 2, globalBatch: 4, steps: 5 }',
    'plan: { dp: 2 }',
  ].join('\n'),
)

test('a rank dies, and Ctrl-C comes while the run starts again: it goes on, takes the step, saves and ends', async () => {
  const heard = new Set<(code: number) => void>()
  let said = ''
  const io: Io = {
    ...processIo(),
    out: text => {
      said += text
      if (text.includes('[restart]')) for (const stop of heard) stop(130)
    },
    err: () => {},
    colors: false,
    terminal: () => undefined,
    onInterrupt(stop) {
      heard.add(stop)
      return () => void heard.delete(stop)
    },
  }
  const keeping = ['--keep-going', '--fault', 'kill:rank=1,step=2,at=3', '--save', at('saved')]
  equal(await run(['train', at('job.yaml'), '--out', at('run'), ...keeping], io), 130, said)
  match(said, /warning at step 2, rank 1: .*resumes after step 1, from memory of the ranks \[restart\]/)
  match(said, /recovered from 1 failure\n/)
  const lines = readFileSync(at('run', 'metrics.jsonl'), 'utf8').trim().split('\n')
  const told = lines.map(line => JSON.parse(line)).map(({ step, event = 'step' }) => `${event} ${step}`)
  deepEqual(
    told.filter(line => /^(step|restart) /.test(line)),
    ['step 1', 'restart 2', 'step 2'],
  )
  match(readFileSync(at('run', 'flight-1.txt'), 'utf8'), /rank 1 dead in /)
  equal(existsSync(at('saved', 'step-00000002', 'manifest.json')), true)
})

for (const more of [[], ['--keep-going']])
  test(`a rank that is stalled is an event of its own, and names it: train ${more.join(' ')}`, async () => {
    const folder = at(`still${more.join('')}`)
    const io: Io = { ...processIo(), out: () => {}, err: () => {}, colors: false, terminal: () => undefined }
    const still = ['--timeout', '1', '--fault', 'stall:rank=1,step=2,at=3', ...more]
    const done = run(['train', at('job.yaml'), '--out', folder, ...still], io)
    equal(await done, more.length > 0 ? 0 : 1)
    const lines = readFileSync(join(folder, 'metrics.jsonl'), 'utf8').trim().split('\n')
    const told = lines.map(line => JSON.parse(line)).filter(({ event }) => ['timeout', 'restart'].includes(event))
    const [{ rank, step, where, message }, ...others] = told
    deepEqual([rank, step], [1, 2])
    match(where, / of step \d+ /)
    match(message, /^rank 1 is stalled/)
    equal(others[0]?.event, more.length > 0 ? 'restart' : undefined)
  })

test('a run that loses a rank says so in its folder: watch and doctor read how it ended', async () => {
  const folder = at('ended')
  let said = ''
  const io: Io = {
    ...processIo(),
    out: text => void (said += text),
    err: () => {},
    colors: false,
    terminal: () => undefined,
  }
  equal(await run(['train', at('job.yaml'), '--out', folder, '--fault', 'kill:rank=1,step=4'], io), 1)
  const lines = readFileSync(join(folder, 'metrics.jsonl'), 'utf8').trim().split('\n')
  const { event, step, rank, severity, message } = JSON.parse(lines.at(-1)!)
  deepEqual([event, step, rank, severity], ['failed', 4, 1, 'error'])
  match(message, /^the run failed here: step 4: rank 1 failed: its thread/)
  said = ''
  equal(await run(['watch', folder, '--once'], io), 0)
  match(said, /^\S+ended: failed after step 3 of 5, last seen/)
  equal(/\d s left/.test(said), false, said)
  said = ''
  await run(['watch', folder, '--once', '--json'], io)
  const { status, secondsLeft } = JSON.parse(said)
  deepEqual([status, secondsLeft], ['failed', undefined])
  equal(await run(['watch', folder], io), 1) // it does not wait for more
  said = ''
  await run(['doctor', folder, '--json'], io)
  deepEqual(JSON.parse(said).findings[0].event, 'failed')
  // A run that was started again has not failed.
  writeFileSync(join(folder, 'metrics.jsonl'), `${[...lines, lines[2].replace('"step":3', '"step":4')].join('\n')}\n`)
  said = ''
  await run(['watch', folder, '--once'], io)
  match(said, /step 4 of 5/)
  equal(/failed after/.test(said), false)
})
