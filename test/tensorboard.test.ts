/** Event files: byte for byte those of PyTorch's writer, from Python the same, and read by the real package where there is one. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { HealthEvent } from '../src/health/index.js'
import { openTensorBoard, restartRecord, scalarsOf, valuesRecord } from '../src/monitor/index.js'
import { nodeFiles } from '../src/node/index.js'
import { type EventRecord, eventRecords, tagsIn } from './event-files.js'
import { later, test } from './families.js'
import { fixtureFolders, fixturePath, hasFixture, readFixture } from './fixtures.js'
import { lockstep } from './memory-io.js'

test('the bytes of one record: loss/train 1.25 at step 7', () => {
  const hex = Buffer.from(valuesRecord({ time: 1000, step: 7 }, [{ tag: 'loss/train', value: 1.25 }])).toString('hex')
  const payload = '090000000000408f4010072a130a110a0a6c6f73732f747261696e150000a03f'
  equal(hex, `200000000000000029eda950${payload}3c5839c4`)
})

interface Expected {
  readonly wallTime: number
  readonly step: number
  readonly bytes: number
  readonly crcLength: string
  readonly crcData: string
  readonly sessionLog?: number
  readonly values?: readonly {
    readonly tag: string
    readonly kind: string
    readonly plugin?: string
    readonly value: number | string
  }[]
}

type Files = Readonly<Record<string, { readonly events: readonly Expected[] }>>

const words: Readonly<Record<string, number>> = { inf: Infinity, '-inf': -Infinity, nan: Number.NaN }

for (const name of fixtureFolders('tensorboard'))
  test(`${name}: what PyTorch wrote we write, to the bit`, () => {
    const { files } = JSON.parse(readFixture(`tensorboard/${name}/expected.json`)) as { files: Files }
    let compared = 0
    for (const [file, { events }] of Object.entries(files)) {
      const path = `tensorboard/${name}/${file}`
      const records = hasFixture(path) ? eventRecords(readFileSync(fixturePath(path))) : undefined
      if (records) equal(records.length, events.length)
      for (const [i, { wallTime: time, step, bytes, crcLength, crcData, values, sessionLog }] of events.entries()) {
        if (records) deepEqual(headOf(records[i]), { bytes, crcLength, crcData })
        // Scalars as tensors, text and histograms are not what we write scalars as.
        const plain = values?.every(({ kind }) => kind === 'simple_value') ? values : undefined
        const given = plain?.map(({ tag, value }) => ({ tag, value: typeof value === 'number' ? value : words[value] }))
        if (!given && sessionLog === undefined) continue
        const record = given ? valuesRecord({ time, step }, given) : restartRecord({ time, step })
        const [ours] = eventRecords(record)
        deepEqual(headOf(ours), { bytes, crcLength, crcData }, JSON.stringify(given))
        if (records) deepEqual(Buffer.from(record), Buffer.from(records[i].whole))
        compared++
      }
    }
    ok(compared > 0)
  })

const headOf = ({ payload, crcLength, crcData }: EventRecord) => ({ bytes: payload.length, crcLength, crcData })

/** Summary, its value, the tensor of it, a string of that. */
const textOfEvent = [5, 1, 8, 8]

/** What lies in a message under numbers of fields, one within the other; of several the first. */
function bytesIn(message: Uint8Array, [field, ...rest]: readonly number[]): Uint8Array {
  if (field === undefined) return message
  let at = 0
  const varint = (): number => {
    for (let value = 0, unit = 1; ; unit *= 128) {
      const byte = message[at++]
      value += (byte % 128) * unit
      if (byte < 128) return value
    }
  }
  while (at < message.length) {
    const key = varint()
    if (key % 8 === 0) varint()
    else {
      const length = { 1: 8, 2: 0, 5: 4 }[key % 8] || varint()
      if (key === 8 * field + 2) return bytesIn(message.subarray(at, at + length), rest)
      at += length
    }
  }
  throw new Error(`no field ${field}`)
}

test('text is as PyTorch writes it', () => {
  const texts = fixtureFolders('tensorboard').flatMap(name => {
    const { files } = JSON.parse(readFixture(`tensorboard/${name}/expected.json`)) as { files: Files }
    return Object.entries(files).flatMap(([file, { events }]) =>
      events.flatMap((event, i) => {
        if (!event.values?.some(({ plugin }) => plugin === 'text')) return []
        const { whole } = eventRecords(readFileSync(fixturePath(`tensorboard/${name}/${file}`)))[i]
        return [{ ...event, whole }]
      }),
    )
  })
  ok(texts.length > 0)
  for (const { wallTime: time, step, values, whole } of texts) {
    const [{ tag }] = values!
    const text = Buffer.from(bytesIn(whole.subarray(12, -4), textOfEvent)).toString()
    deepEqual(Buffer.from(valuesRecord({ time, step }, [{ tag, text }])), Buffer.from(whole))
  }
})

const health: HealthEvent = {
  ...{ step: 2, event: 'straggler', severity: 'warning', rank: 3, message: 'slow', numbers: { seconds: 0.5 } },
}
const line = {
  step: 1,
  loss: 2.5,
  seconds: 0.25,
  lr: 1e-3,
  gradientNorm: 1e39,
  tokensPerSecond: 1e5,
  peakBytes: 2 ** 31,
}

test('a step that comes again drops what was written of it', () => {
  const folder = mkdtempSync(join(tmpdir(), 'board-'))
  const options = { files: nodeFiles(), about: 'a job', first: 1, now: () => 1700000000.5 }
  const board = openTensorBoard(folder, options)
  for (const step of [1, 2, 3, 2]) board.step({ ...line, step, loss: Number.NaN })
  board.event(health)
  const told = tagsIn(readFileSync(board.path)).filter(
    ([, tag]) => !/^(optimizer|perf|memory|train\/(lr|grad_norm))/.test(tag),
  )
  deepEqual(
    told.map(([step, tag]) => `${step} ${tag}`),
    ['0 job', '1 train/loss', '2 train/loss', '3 train/loss', '2 restart', '2 train/loss', '2 events/straggler'],
  )
  const again = openTensorBoard(folder, { ...options, first: 3 })
  deepEqual(tagsIn(readFileSync(again.path))[0], [3, 'restart'])
  deepEqual(
    readdirSync(folder).map(name => /tfevents\.1700000000\..*\.\d+\.(\d)$/.exec(name)?.[1]),
    ['0', '1'],
  )
})

test('emitted programs write the same bytes', {
  skip: spawnSync('python3', ['-V']).status !== 0 && 'no python3',
}, () => {
  const program = [
    'import json, sys, importlib.util',
    'spec = importlib.util.spec_from_file_location("board", "src/emit/runtime/tensorboard.py")',
    'board = importlib.util.module_from_spec(spec); spec.loader.exec_module(board)',
    'record = json.loads(sys.argv[1])',
    'said = [(tag, record[key] * by) for tag, key, by in board.CURVES if key in record]',
    'values = b"".join(board.scalar(tag, x) for tag, x in said)',
    'print(board.event(1000.5, record["step"], board._bytes(5, values)).hex())',
    'print(board.event(1000.5, 0, board._bytes(5, board.text("job", "für"))).hex())',
  ].join('\n')
  const { stdout, stderr } = spawnSync('python3', ['-c', program, JSON.stringify(line)], { encoding: 'utf8' })
  const ours = [
    valuesRecord({ time: 1000.5, step: 1 }, scalarsOf(line)),
    valuesRecord({ time: 1000.5, step: 0 }, [{ tag: 'job', text: 'für' }]),
  ]
  deepEqual(
    stdout.trim().split('\n'),
    ours.map(record => Buffer.from(record).toString('hex')),
    stderr,
  )
})

const job = {
  ...{ model: { family: 'gpt', layers: 1, embed: 8, heads: 2, vocab: 16 }, plan: { dp: 2 } },
  training: { seq: 4, globalBatch: 4, steps: 3, evalBatches: 1 },
}

test('train --tensorboard writes the curves of a run', async () => {
  const args = ['train', 'job.json', '--kernels', 'reference', '--tensorboard', 'board']
  const { code, out, written } = await lockstep(args, { 'job.json': JSON.stringify(job) })
  equal(code, 0)
  ok(out.includes('tensorboard --logdir board'))
  const [file, text] = Object.entries(written).find(([path]) => path.startsWith('board/')) ?? ['', '']
  ok(file.startsWith('board/events.out.tfevents.'))
  const tags = tagsIn(Buffer.from(text, 'latin1'))
  deepEqual(tags[0], [0, 'job'])
  deepEqual(
    tags.flatMap(([step, tag]) => (tag === 'train/loss' ? [step] : [])),
    [1, 2, 3],
  )
  for (const curve of ['val/loss', 'memory/peak_gib'])
    ok(
      tags.some(([step, tag]) => step === 3 && tag === curve),
      curve,
    )
})

const read = `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
board = EventAccumulator(sys.argv[1]); board.Reload()
tags = board.Tags()
print(json.dumps({"losses": [[e.step, e.value] for e in board.Scalars("train/loss")],
  "scalars": sorted(tags["scalars"]), "texts": sorted(tags["tensors"])}))`
const hasBoard = (python: string) => spawnSync(python, ['-c', 'import tensorboard']).status === 0
const python = [process.env.LOCKSTEP_TENSORBOARD_PYTHON, process.env.LOCKSTEP_PYTHON, 'python3'].find(
  name => name !== undefined && hasBoard(name),
)
const noBoard = python === undefined && 'no Python with tensorboard (set LOCKSTEP_TENSORBOARD_PYTHON)'

later('the real TensorBoard reads what we write, and drops what a restart repeats', { skip: noBoard }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'board-'))
  const options = { files: nodeFiles(), about: '**a job**', now: () => Date.now() / 1000 }
  const board = openTensorBoard(folder, { ...options, first: 1 })
  for (const step of [1, 2, 3, 4]) board.step({ ...line, step, loss: step })
  board.event(health)
  const next = openTensorBoard(folder, { ...options, first: 3 })
  for (const step of [3, 4, 4, 5]) next.step({ ...line, step, loss: 10 * step })
  const { stdout, stderr } = spawnSync(python ?? '', ['-c', read, folder], { encoding: 'utf8' })
  ok(stdout !== '', stderr)
  const found = JSON.parse(stdout)
  deepEqual(found.losses, [
    [1, 1],
    [2, 2],
    [3, 30],
    [4, 40],
    [5, 50],
  ])
  deepEqual(found.texts, ['events/straggler', 'job'])
  deepEqual(
    found.scalars,
    scalarsOf(line)
      .map(({ tag }) => tag)
      .sort(),
  )
})
