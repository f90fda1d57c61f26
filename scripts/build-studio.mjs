// Builds the studio into dist/studio/page where a source is newer than the last build: checks its types (where `tsc -b` has written
// those it stands on), then bundles it.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const built = join(root, 'dist/studio/page/index.html')
const changed = folder =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && !entry.name.endsWith('.map') && !entry.name.endsWith('.tsbuildinfo'))
    .map(entry => statSync(join(entry.parentPath, entry.name)).mtimeMs)
const newest = () =>
  Math.max(...['studio', 'dist/src', 'kernels'].flatMap(changed), statSync(join(root, 'package-lock.json')).mtimeMs)

if (!existsSync(built) || statSync(built).mtimeMs < newest() || process.argv.includes('--force')) {
  const run = (tool, args) =>
    execFileSync(process.execPath, [join(root, 'node_modules', tool), ...args], {
      cwd: root,
      stdio: ['ignore', 2, 'inherit'],
    })
  try {
    if (existsSync(join(root, 'dist/info/cli.json'))) run('typescript/bin/tsc', ['-p', 'studio'])
    run('vite/bin/vite.js', ['build', '--config', 'studio/vite.config.ts', '--logLevel', 'warn'])
  } catch (error) {
    process.exit(error.status ?? 1) // the tool has said why
  }
}
