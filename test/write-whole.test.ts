/** Files are written whole or not at all. */
import { deepEqual, equal, match, throws } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { processIo } from '../src/cli/io.js'

const folder = () => mkdtempSync(join(tmpdir(), 'lockstep-write-'))
const { write, makeFolder } = processIo()

test('a new file, and one that is replaced: its mode stays, and the link that leads to it', () => {
  const at = folder()
  const [file, link] = [join(at, 'job.yaml'), join(at, 'link.yaml')]
  writeFileSync(file, 'before', { mode: 0o600 })
  symlinkSync(file, link)
  write(link, 'after')
  equal(readFileSync(file, 'utf8'), 'after')
  equal(statSync(file).mode & 0o777, 0o600)
  equal(lstatSync(link).isSymbolicLink(), true)
  write(join(at, 'new.bin'), new Uint8Array([1, 2]))
  deepEqual(readdirSync(at), ['job.yaml', 'link.yaml', 'new.bin'])
})

test('what is no file is written to as it is', () => write('/dev/null', 'nothing'))

test('a folder that is missing, or a folder of that name: said in words, and nothing is left', () => {
  const at = folder()
  throws(() => write(join(at, 'no', 'x'), 'x'), /^Error: no such file$/)
  mkdirSync(join(at, 'taken'))
  throws(() => write(join(at, 'taken'), 'x'), /^Error: is a directory$/)
  deepEqual(readdirSync(at), ['taken'])
})

test('a folder with those above it, and where none can be made: said in words, at once', () => {
  const at = folder()
  makeFolder(join(at, 'a', 'b'))
  makeFolder(join(at, 'a', 'b'))
  equal(statSync(join(at, 'a', 'b')).isDirectory(), true)
  write(join(at, 'file'), 'x')
  throws(() => makeFolder(join(at, 'file')), /^Error: is a file$/)
  throws(() => makeFolder(join(at, 'file', 'below')), /^Error: (is a file|no folder can be made there)$/)
  if (process.platform === 'linux')
    throws(() => makeFolder('/proc/lockstep/run'), /^Error: no folder can be made there$/)
})

test('killed half-way through, what was there before is still there', () => {
  const at = folder()
  const file = join(at, 'job.yaml')
  writeFileSync(file, 'before')
  const module = new URL('../src/node/write-whole.js', import.meta.url).href
  const script = `const { writeWhole } = await import('${module}'); writeWhole('${file}', 'x'.repeat(2 ** 24))`
  // No file of this process may grow beyond a few blocks: the write cannot end.
  const { status } = spawnSync('sh', [
    '-c',
    `ulimit -f 8; exec "$0" --input-type=module -e "$1"`,
    process.execPath,
    script,
  ])
  equal(status === 0, false)
  equal(readFileSync(file, 'utf8'), 'before')
})

test('a file that is made new and finds no room is not there: an empty lock would be held for ever', () => {
  const file = join(folder(), 'run.lock')
  const module = new URL('../src/node/files.js', import.meta.url).href
  const script = `const { nodeFiles } = await import('${module}'); nodeFiles().create('${file}', 'content')`
  const { status, stderr } = spawnSync(
    'sh',
    ['-c', `ulimit -f 0; exec "$0" --input-type=module -e "$1"`, process.execPath, script],
    { encoding: 'utf8' },
  )
  equal(status, 1)
  match(stderr, /Error: is larger than files may be here/)
  equal(existsSync(file), false)
})
