/** Damage in checkpoints: whatever bit, end or file is gone, it is found and named, and the checkpoint before is used. */
import { deepEqual, equal, match, ok, throws } from 'node:assert/strict'
import { choices, type Files, within } from '../src/base/index.js'
import { memoryFiles } from '../src/base/memory-files.js'
import { printCheckpoint } from '../src/checkpoint/index.js'
import { compileJob } from '../src/compile/index.js'
import { boot } from '../src/engine/index.js'
import { beginningOf, newestGood, passedOver } from '../src/train/index.js'
import { test } from './families.js'
import { jobOf } from './jobs.js'

const program = compileJob(jobOf('mlp', { dp: 2, zero: 1, tp: 2 }))
const machine = boot(program, { seed: 1 })

/** A folder with the checkpoints of some steps. */
function folderOf(...steps: readonly number[]): Files {
  const files = memoryFiles()
  for (const step of steps)
    for (const [file, content] of printCheckpoint(
      program,
      { run: 'run', job: {}, tokenizer: '{}', step, seed: 1 },
      shard => machine.held(shard),
    ))
      files.write(`saved/step-0000000${step}/${file}`, content)
  return files
}

const last = 'saved/step-00000002'
const flips = Number(process.env.FLIPS ?? 100)
const whole = folderOf(1, 2)
const names = whole.list(last)!.map(path => path.slice(last.length + 1))
/** The same folder, but for one file of the last checkpoint. */
function withFile(file: string, content: Uint8Array | undefined): Files {
  const path = within(last, file)
  return {
    ...whole,
    list: folder => whole.list(folder)?.filter(name => name !== path || content),
    exists: name => (name === path ? content !== undefined : whole.exists(name)),
    readBytes(name, begin, end) {
      if (name !== path) return whole.readBytes(name, begin, end)
      if (!content) throw new Error('no such file')
      return content.subarray(begin, end)
    },
  }
}

const damages: Readonly<Record<string, (bytes: Uint8Array, int: (below: number) => number) => Uint8Array | undefined>> =
  {
    'one bit': (bytes, int) => {
      const [at, bit] = [int(bytes.length), 1 << int(8)]
      return bytes.map((byte, i) => (i === at ? byte ^ bit : byte))
    },
    'cut short': (bytes, int) => bytes.subarray(0, int(bytes.length)),
    gone: () => undefined,
    longer: (bytes, int) => new Uint8Array(Buffer.concat([bytes, Buffer.alloc(1 + int(9), int(256))])),
  }

test(`${flips} flipped bits, files cut short, longer or gone: each is found and named, the one before is used (SEED=1)`, () => {
  const { int, pick } = choices(1)
  for (let i = 0; i < flips; i++) {
    const [file, kind] = [pick(names), pick(['one bit', 'one bit', 'one bit', 'cut short', 'gone', 'longer'])]
    const files = withFile(file, damages[kind](whole.readBytes(within(last, file)), int))
    const { good, damaged } = newestGood('saved', files)
    equal(good?.path, 'saved/step-00000001', `${kind} of ${file}`)
    deepEqual(
      damaged.map(({ path }) => path),
      [last],
      `${kind} of ${file}`,
    )
    for (const damage of damaged[0].damages) {
      equal(damage.file, file, `${kind}: ${damage.message}`)
      ok(damage.message.includes(file), damage.message)
      if (file.startsWith('rank')) ok(damage.tensor !== undefined && damage.rank !== undefined)
    }
  }
})

test('what is damaged is said with file, tensor and rank; a checkpoint that was asked for by its name is refused with the one before', () => {
  const bytes = whole.readBytes(within(last, 'rank-00001.safetensors'))
  const files = withFile(
    'rank-00001.safetensors',
    bytes.map((byte, i) => (i === bytes.length - 1 ? byte ^ 4 : byte)),
  )
  const [{ message, suggestion }] = passedOver(beginningOf({ resume: 'saved' }, files)!)
  match(
    message,
    /^saved\/step-00000002: rank-00001\.safetensors \(written by rank 1\): tensor v\.\S+ is corrupt: its CRC-32/,
  )
  equal(suggestion, 'saved/step-00000001 is used instead')
  throws(() => beginningOf({ resume: last }, files), /the previous checkpoint is complete: saved\/step-00000001/)
  // Moments are not what a run with other weights starts from.
  equal(beginningOf({ init: last }, files)?.path, last)
})

test('one whose load has ended the process twice is passed over while there is another', () => {
  const files = { ...folderOf(1, 2), hasEnded: () => true }
  const load = () => beginningOf({ resume: 'saved' }, files)!
  load().loading!() // the process ends here
  equal(load().path, last)
  load().loading!()
  equal(load().path, 'saved/step-00000001')
  match(passedOver(load())[0].message, /2 processes have ended while they loaded it/)
  load().loading!()()
  files.remove('saved/step-00000001')
  equal(load().path, last)
})
