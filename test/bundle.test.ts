/** The command line in one file: taken while it is of the modules of today, with what V8 compiled of it, wherever that can be kept. */
import { deepEqual, equal, match, notEqual } from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after } from 'node:test'
import { pathToFileURL } from 'node:url'
import { later, test } from './families.js'

const made = mkdtempSync(join(tmpdir(), 'lockstep-bundle-'))
after(() => rmSync(made, { recursive: true, force: true }))

const node = (args: readonly string[], env: Readonly<Record<string, string>> = {}): string =>
  execFileSync(process.execPath, args, { encoding: 'utf8', env: { ...process.env, LOCKSTEP_DEBUG: '', ...env } })

/** A package whose modules print `modules`, and whose bundle prints `bundle`, at `said`. */
async function packageAt(name: string, checkout: boolean) {
  const at = (path: string) => join(made, name, path)
  const write = (path: string, text: string) => {
    mkdirSync(dirname(at(path)), { recursive: true })
    writeFileSync(at(path), text)
  }
  for (const path of ['bin', 'dist/src/platform/node-cache.js']) cpSync(path, at(path), { recursive: true })
  write('package.json', '{ "type": "module" }')
  write('dist/src/cli/main.js', "export const run = () => console.log('modules') ?? 0\n")
  if (checkout) write('dist/info/cli.json', '{}')
  const { sources } = await import(pathToFileURL(at('bin/bundle.mjs')).href)
  const bundle = (said: string) =>
    write(
      'dist/cli/lockstep.cjs',
      `//${JSON.stringify({ hash: said, from: sources() })}\n(function (exports) {
        exports.run = async () => console.log('${said}') ?? 0 })\n`,
    )
  const run = (env: Readonly<Record<string, string>> = {}) => node([at('bin/lockstep.mjs'), 'check'], env).trim()
  return { at, bundle, run }
}

const bytesIn = (folder: string) => readdirSync(folder).map(name => readFileSync(join(folder, name)))

test('a checkout takes its bundle until a module is compiled anew', async () => {
  const { at, bundle, run } = await packageAt('checkout', true)
  equal(run(), 'modules')
  bundle('bundle')
  equal(run(), 'bundle')
  equal(run({ LOCKSTEP_DEBUG: '1' }), 'modules') // whose stacks name lines
  utimesSync(at('dist/info/cli.json'), 1, 1)
  equal(run(), 'modules')
  writeFileSync(at('dist/cli/lockstep.cjs'), '') // a disk that was full
  equal(run(), 'modules')
})

test('modules without type checking make a checkout too: its bundle lasts until one is written', async () => {
  const { at, bundle, run } = await packageAt('stripped', false)
  mkdirSync(at('dist/info'), { recursive: true })
  writeFileSync(at('dist/info/modules.json'), '{}')
  bundle('bundle')
  equal(run(), 'bundle')
  utimesSync(at('dist/info/modules.json'), 1, 1)
  equal(run(), 'modules')
})

test('types are removed where a source is newer than its module, and a slip names the file', async () => {
  const root = join(made, 'sources')
  for (const path of ['scripts/build-modules.mjs', 'package.json']) cpSync(path, join(root, path))
  symlinkSync(join(process.cwd(), 'node_modules'), join(root, 'node_modules'))
  mkdirSync(join(root, 'src/inner'), { recursive: true })
  const write = (text: string) => writeFileSync(join(root, 'src/inner/one.ts'), text)
  const build = () => spawnSync(process.execPath, [join(root, 'scripts/build-modules.mjs')], { encoding: 'utf8' })
  write('import type { A } from "./a.js"\nexport const one: number = 1 satisfies number\nexport type B = A\n')
  equal(build().status, 0)
  const { one } = await import(pathToFileURL(join(root, 'dist/src/inner/one.js')).href)
  equal(one, 1)
  const record = join(root, 'dist/info/modules.json')
  utimesSync(record, 1, 1)
  equal(build().status, 0)
  equal(statSync(record).mtimeMs, 1000, 'nothing had changed')
  write('export const = 2\n')
  const failed = build()
  notEqual(failed.status, 0)
  match(failed.stderr, /src\/inner\/one\.ts: /)
})

test('what V8 compiled is kept beside it, and made anew where it is not taken or of another bundle', async () => {
  const { at, bundle, run } = await packageAt('kept', true)
  const folder = at('dist/cli/kept')
  bundle('first')
  equal(run(), 'first')
  const [kept] = bytesIn(folder)
  equal(run(), 'first')
  deepEqual(bytesIn(folder), [kept])
  for (const name of readdirSync(folder)) writeFileSync(join(folder, name), kept.subarray(0, 100))
  equal(run(), 'first')
  notEqual(bytesIn(folder)[0].length, 100)
  bundle('other') // as long, and V8 compares lengths alone
  equal(run(), 'other')
  equal(bytesIn(folder).length, 1)
})

test('an installed package keeps it in the cache of its user, or, where that cannot be written, nowhere', async () => {
  const { at, bundle, run } = await packageAt('installed', false)
  bundle('bundle')
  equal(run({ XDG_CACHE_HOME: at('cache') }), 'bundle')
  equal(readdirSync(at('cache/lockstep/cli')).length, 1)
  equal(run({ XDG_CACHE_HOME: at('package.json') }), 'bundle')
})

later('the bundle prints what modules print, and holds the licences of what it took in', () => {
  node(['scripts/build-cli.mjs'])
  const lines = [['check', 'examples/jobs/start.yaml', '--json'], ['config'], ['plan', '--help']]
  for (const argv of lines)
    equal(node(['bin/lockstep.mjs', ...argv]), node(['bin/lockstep.mjs', ...argv], { LOCKSTEP_DEBUG: '1' }))
  const packages = readFileSync('dist/cli/licences.txt', 'utf8').match(/^\S+ [\d.]+ \(.*\)$/gm)
  deepEqual(
    packages?.map(line => line.split(' ')[0]),
    ['commander', 'yaml', 'zod'],
  )
})
