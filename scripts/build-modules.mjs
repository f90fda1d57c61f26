// Writes src/**/*.ts as JavaScript into dist/src by removing the types, where a source is newer than its module. It checks no types: a
// command can run after half a second, and `tsc -b` checks and writes the same modules for `npm test`.
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const written = path => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
const moduleOf = source => join(root, 'dist', relative(root, source).replace(/\.ts$/, '.js'))

const sources = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
  .filter(entry => entry.isFile() && entry.name.endsWith('.ts'))
  .map(entry => join(entry.parentPath, entry.name))
const changed = sources.filter(source => written(moduleOf(source)) < written(source))

if (changed.length > 0) {
  const { transformSync } = await import('rolldown/utils')
  for (const source of changed) {
    const options = { typescript: { onlyRemoveTypeImports: true }, target: 'es2022' }
    const { code, errors } = transformSync(source, readFileSync(source, 'utf8'), options)
    if (errors.length > 0) throw new Error(`${relative(root, source)}: ${errors[0].message}`)
    mkdirSync(dirname(moduleOf(source)), { recursive: true })
    writeFileSync(moduleOf(source), code)
  }
  // bin/bundle.mjs compares the time of this record.
  mkdirSync(join(root, 'dist/info'), { recursive: true })
  writeFileSync(join(root, 'dist/info/modules.json'), `${JSON.stringify({ written: changed.length })}\n`)
}
