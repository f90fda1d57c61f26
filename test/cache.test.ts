/** The cache of native kernels: where it is, whom it is trusted from, and what is done with a damaged build. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { after, test } from 'node:test'
import { builtKernels, cacheFolderOf, distrustOf } from '../src/platform/node-cache.js'

const root = mkdtempSync(join(tmpdir(), 'lockstep-cache-'))
after(() => rmSync(root, { recursive: true, force: true }))
const at = (...names: string[]) => join(root, ...names)

test('an empty or relative home names no cache folder', () => {
  for (const env of [{}, { HOME: '' }, { HOME: '.' }, { HOME: 'a', XDG_CACHE_HOME: 'b' }, { XDG_CACHE_HOME: '' }])
    equal(cacheFolderOf(env), undefined, JSON.stringify(env))
  equal(cacheFolderOf({ HOME: 'a', XDG_CACHE_HOME: '/b' }), '/b')
  match(cacheFolderOf({ HOME: '/a', XDG_CACHE_HOME: 'b' })!, /^\/a\//)
  const module = resolve('dist/src/platform/node-cache.js')
  const print = `import('${module}').then(({ userCache }) => console.log(userCache() ?? '/none'))`
  for (const HOME of ['', '.', 'home']) {
    const { PATH } = process.env
    const { stdout } = spawnSync(process.execPath, ['-e', print], { cwd: root, env: { PATH, HOME }, encoding: 'utf8' })
    match(stdout, /^\//, `HOME=${HOME}`)
    equal(stdout.startsWith(root), false)
  }
})

test('a folder that others can write to, or own, is not trusted', () => {
  mkdirSync(at('own'))
  chmodSync(at('own'), 0o755)
  deepEqual([distrustOf(at('own')), distrustOf(at('nothing'))], [undefined, undefined])
  for (const mode of [0o775, 0o757, 0o777]) {
    chmodSync(at('own'), mode)
    match(distrustOf(at('own'))!, /^others can write to \S+own; try chmod go-w/)
  }
  writeFileSync(at('file'), '')
  match(distrustOf(at('file', 'lockstep'))!, /file.lockstep cannot be examined \(ENOTDIR\)/)
  if (process.getuid?.() !== 0) match(distrustOf('/')!, /belongs to another user/)
})

test('kernels of a checkout that were cut off, or are others, are not loaded', () => {
  mkdirSync(at('kernels'))
  const [addon, record] = [at('kernels', 'lockstep.node'), at('kernels', 'native.json')]
  equal(builtKernels(at('kernels')), undefined)
  writeFileSync(addon, 'the addon')
  const sum = createHash('sha256').update('the addon').digest('hex')
  writeFileSync(record, JSON.stringify({ built: true, sum }))
  deepEqual(builtKernels(at('kernels')), { path: addon })
  for (const wrong of ['the add', '', 'garbage!!']) {
    writeFileSync(addon, wrong)
    const { path, reason, damaged } = builtKernels(at('kernels'))!
    deepEqual([path, damaged], [undefined, true])
    match(reason!, /is not what was built \(try npm run setup\)$/)
  }
  writeFileSync(record, JSON.stringify({ built: false, reason: 'no C compiler' }))
  deepEqual(builtKernels(at('kernels')), { reason: 'no C compiler' })
})

/** In the place of a compiler: what it makes is the names of what it was given. */
const compiler = `#!/bin/sh
case "$*" in
  --version) echo fake 1.0;;
  *-dM*) echo '#define __AVX2__ 1';;
  *) while [ "$1" != -o ]; do shift; done; echo built >> "$LOG"; echo addon > "$2";;
esac
`

/** What an installed package finds in its cache, having built it where it had to. */
function cached(more: Readonly<Record<string, string>> = {}) {
  const env = { ...process.env, CC: at('cc'), LOG: at('log'), XDG_CACHE_HOME: at('cache'), ...more }
  const script = resolve('scripts/build-kernels.mjs')
  const { stdout, stderr } = spawnSync(process.execPath, [script, '--cached'], { env, encoding: 'utf8' })
  const compiled = readFileSync(at('log'), 'utf8').length
  return { ...(JSON.parse(stdout) as { path?: string; reason?: string }), stderr, compiled }
}

test('damaged kernels in the cache are built again; those of an untrusted folder are not loaded', () => {
  writeFileSync(at('cc'), compiler, { mode: 0o755 })
  writeFileSync(at('log'), '')
  const { path, compiled } = cached()
  equal(readFileSync(path!, 'utf8'), 'addon\n')
  deepEqual([cached().path, cached().compiled], [path, compiled])
  let before = compiled
  for (const damage of ['ad', 'garbage', '']) {
    writeFileSync(path!, damage)
    const again = cached()
    match(again.stderr, /lockstep\.node is damaged: it is built again/)
    deepEqual([again.path, readFileSync(path!, 'utf8'), again.compiled > before], [path, 'addon\n', true])
    before = again.compiled
  }
  writeFileSync(join(path!, '..', 'native.json'), '{"buil')
  equal(cached().path, path)
  for (const folder of [at('cache', 'lockstep'), join(path!, '..')]) {
    chmodSync(folder, 0o777)
    const refused = cached()
    deepEqual([refused.path, /others can write to/.test(refused.reason!)], [undefined, true])
    match(refused.stderr, /warning: native kernels are not loaded: .*WebAssembly runs instead/)
    chmodSync(folder, 0o700)
  }
  const found = cached({ XDG_CACHE_HOME: 'relative', HOME: at('home') })
  equal(found.path?.startsWith(at('home')), true)
  deepEqual(readdirSync(root).includes('relative'), false)
})
