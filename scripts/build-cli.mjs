// Bundles the command line, as `tsc -b` or build-modules.mjs left it in dist/src, into dist/cli/lockstep.cjs, with the licences of the packages it takes in
// beside it. bin/bundle.mjs loads it while it is of the modules of today, which this script asks too.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundlePath, freshBundle, keptBeside, sources } from '../bin/bundle.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const built = join(root, 'dist/src')

/** Modules find files beside themselves, and some packages only when they are called for: the bundle is told how. */
const surroundings = {
  name: 'surroundings',
  transform(code, id) {
    if (!id.startsWith(built)) return
    const place = `placeOf(${JSON.stringify(relative(built, id).replaceAll('\\', '/'))})`
    const told = code.replaceAll('import.meta.url', place).replace(/\bimport\('(?=node:|@)/g, "importLater('")
    return id.endsWith('/platform/platform.js') ? ofNode(told) : told
  },
}

/** A script cannot wait while it is loaded, and this one need not ask where it runs. */
function ofNode(code) {
  const choice = /export const platform = isNode\s*\? [^;]*;/
  if (!choice.test(code)) throw new Error('the platform is chosen in another way: surroundings must learn it')
  return `import { nodePlatform } from './node.js'\n${code.replace(choice, 'export const platform = nodePlatform;')}`
}

/** A string of one byte a letter is read and kept in half the time. Written out, a letter is the same in strings, templates and patterns. */
function ascii(code) {
  if (/\\[^\0-\x7f]/.test(code)) throw new Error('a letter beyond ASCII follows a backslash: ascii must learn it')
  return code.replace(/[^\0-\x7f]/g, letter => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

async function bundle() {
  const { rolldown } = await import('rolldown')
  const bundled = await rolldown({
    input: join(built, 'cli/main.js'),
    platform: 'node',
    external: /^node:/,
    plugins: [surroundings],
    onLog(_, log) {
      throw new Error(log.message)
    },
  })
  const written = { format: 'cjs', codeSplitting: false }
  const { output } = await bundled.generate({ ...written, minify: { compress: false, mangle: false, codegen: true } })
  return output[0]
}

/** The texts that come with the packages whose modules these are. */
function licences(modules) {
  const folders = modules.flatMap(id => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? [])
  return [...new Set(folders)].sort().map(folder => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, 'LICENSE'), 'utf8').trim()}\n`
  })
}

if (!freshBundle()) {
  const from = sources()
  const { code, moduleIds } = await bundle()
  const wrapped = `(function (exports, require, placeOf, importLater) {${ascii(code)}\n})\n`
  const hash = createHash('sha256').update(wrapped).digest('hex').slice(0, 16)
  mkdirSync(dirname(bundlePath), { recursive: true })
  rmSync(keptBeside, { recursive: true, force: true, maxRetries: 5 }) // a command that ends may be writing there
  writeFileSync(join(dirname(bundlePath), 'licences.txt'), licences(moduleIds).join(`\n${'-'.repeat(80)}\n\n`))
  writeFileSync(`${bundlePath}.${process.pid}`, `//${JSON.stringify({ hash, from })}\n${wrapped}`)
  renameSync(`${bundlePath}.${process.pid}`, bundlePath)
}
