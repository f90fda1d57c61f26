/** `--out` names a folder: what others have put there is neither overwritten nor followed out of it. */
import { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type Io, processIo } from '../src/cli/io.js'
import { run } from '../src/cli/main.js'

const root = mkdtempSync(join(tmpdir(), 'lockstep-out-'))
after(() => rmSync(root, { recursive: true, force: true }))
const at = (...names: string[]) => join(root, ...names)

const job = (plan: string) =>
  [
    'model: { family: gpt, layers: 2, embed: 8, heads: 2, ffn: 8, vocab: 8 }',
    'training: { seq: 4, globalBatch: 4, steps: 2 }',
    `plan: { ${plan} }`,
  ].join('\n')
writeFileSync(at('job.yaml'), job('pp: 2, microbatches: 2'))
writeFileSync(at('other.yaml'), job('dp: 2'))

async function lockstep(...args: string[]) {
  const said = { out: '', err: '' }
  const add = (stream: 'out' | 'err') => (text: string) => void (said[stream] += text)
  const io: Io = { ...processIo(), out: add('out'), err: add('err'), colors: false }
  return { code: await run(args, io), ...said }
}
const emit = (folder: string, ...args: string[]) => lockstep('emit', at('job.yaml'), '--out', folder, ...args)

/** Every file below a folder with its content; where a link leads instead. */
const contentsOf = (folder: string) =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter(entry => !entry.isDirectory())
      .map(entry => join(entry.parentPath ?? entry.path, entry.name))
      .map(path => [path, readFileSync(path, 'utf8')]),
  )

test('an emitted folder is emitted again: what is no longer needed goes, other files stay', async () => {
  const folder = at('again')
  equal((await emit(folder)).code, 0)
  writeFileSync(join(folder, 'notes.txt'), 'mine')
  const first = contentsOf(folder)
  equal((await emit(folder)).code, 0)
  deepEqual(contentsOf(folder), first)
  const other = ['emit', at('other.yaml'), '--out', folder]
  equal((await lockstep(...other)).code, 1)
  deepEqual(contentsOf(folder), { ...first, [join(folder, 'notes.txt')]: 'mine' })
  equal((await lockstep(...other, '--force')).code, 0)
  ok(!existsSync(join(folder, 'stage1.py')), 'there is one stage now')
  equal(readFileSync(join(folder, 'notes.txt'), 'utf8'), 'mine')
  equal((await emit(folder, '--schedule-csv')).code, 0)
  ok(existsSync(join(folder, 'schedule.csv')) && existsSync(join(folder, 'stage0.py')), 'a schedule beside it')
})

test('files of somebody else are named, all of them, and nothing is written', async () => {
  const folder = at('foreign')
  mkdirSync(join(folder, 'runtime'), { recursive: true })
  for (const name of ['README.md', 'train.py', 'runtime/data.py']) writeFileSync(join(folder, name), 'mine')
  const before = contentsOf(folder)
  const { code, err } = await emit(folder)
  equal(code, 1)
  match(err, /foreign holds files that would be overwritten: README\.md, train\.py, runtime\/data\.py; name another/)
  deepEqual(contentsOf(folder), before)
})

test('a file that was changed since is not overwritten', async () => {
  const folder = at('changed')
  await emit(folder)
  writeFileSync(join(folder, 'stage0.py'), 'my own')
  const { code, err } = await emit(folder)
  equal(code, 1)
  match(err, /would be overwritten: stage0\.py \(changed since it was written\); name another folder with --out/)
  equal(readFileSync(join(folder, 'stage0.py'), 'utf8'), 'my own')
})

test('links are not followed: of a file, of a folder, of a folder that is not there', async () => {
  writeFileSync(at('precious'), 'mine')
  mkdirSync(at('outside'))
  for (const [name, target] of [
    ['train.py', at('precious')],
    ['runtime', at('outside')],
    ['evaluation', at('nowhere')],
    ['emitted.json', at('precious')],
    ['metrics.jsonl', at('nowhere')],
    ['torchrun.log', at('precious')],
  ]) {
    const folder = at(`link-${name}`)
    mkdirSync(folder)
    symlinkSync(target, join(folder, name))
    const { code, err } = await emit(folder)
    equal(code, 1)
    match(err, new RegExp(`would be overwritten: ${name.replace('.', '\\.')} \\(a link\\); name another folder`))
    deepEqual(readdirSync(folder), [name])
  }
  equal(readFileSync(at('precious'), 'utf8'), 'mine')
  deepEqual(readdirSync(at('outside')), [])
  ok(!existsSync(at('nowhere')))
})

test('an interrupt between two files: the next time both are known as ours', async () => {
  const folder = at('halfway')
  await emit(folder)
  const files = processIo()
  const full: Io = {
    ...files,
    out: () => {},
    err: () => {},
    write: (path, content) => {
      if (path.endsWith('stage0.py')) throw new Error('no space left on the disk')
      files.write(path, content)
    },
  }
  equal(await run(['emit', at('other.yaml'), '--out', folder], full), 1)
  const { code, err } = await emit(folder)
  equal(code, 0, err)
  deepEqual(
    Object.keys(JSON.parse(readFileSync(join(folder, 'emitted.json'), 'utf8')).files).includes('stage1.py'),
    true,
  )
})

test('train: a run needs its names, and takes none that is taken', async () => {
  const folder = at('run')
  mkdirSync(folder)
  writeFileSync(join(folder, 'job.json'), 'mine')
  symlinkSync(at('precious'), join(folder, 'flight.txt'))
  const args = ['train', at('job.yaml'), '--kernels', 'reference', '--out', folder]
  const { code, err } = await lockstep(...args, '--save', at('run-saved'))
  equal(code, 1)
  match(
    err,
    /run holds files that would be overwritten: job\.json, flight\.txt \(a link\); name another folder with --out/,
  )
  deepEqual(readdirSync(folder).sort(), ['flight.txt', 'job.json'])
  equal(readFileSync(join(folder, 'job.json'), 'utf8'), 'mine')
  ok(!existsSync(at('run-saved')))
  doesNotMatch(err, /internal/)
})

test('a file where a folder is asked for, or a folder below one, is said in words', async () => {
  for (const folder of [at('job.yaml'), at('job.yaml', 'below'), at('job.yaml', 'far', 'below')])
    for (const command of ['train', 'emit']) {
      const { code, err } = await lockstep(command, at('job.yaml'), '--out', folder)
      equal(code, 1)
      match(err, /^error: cannot write \S+job\.yaml\S*: (is a file|no folder can be made there) \[run\/write\]\n$/)
    }
  equal(readFileSync(at('job.yaml'), 'utf8'), job('pp: 2, microbatches: 2'))
})
