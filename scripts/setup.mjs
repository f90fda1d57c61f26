// Everything a fresh clone needs before `npm start` or `npm test`: packages, the build, the command line in one file, the native kernels, the studio.
// Every step looks first whether its work is done, so the second start costs only the check. With --packages it stops after them; with --start
// it builds what commands need and nothing else: no tests, and no studio where there was none, which `lockstep studio` builds.
import { execFileSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const at = path => join(root, path)
const age = path => (existsSync(at(path)) ? statSync(at(path)).mtimeMs : 0)
const run = (command, args) => execFileSync(command, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] })

if (age('node_modules/.package-lock.json') < age('package-lock.json')) {
  console.error('setup: installing packages')
  run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'])
}
if (!process.argv.includes('--packages')) {
  const starts = process.argv.includes('--start')
  run(process.execPath, [at('node_modules/typescript/bin/tsc'), '-b', ...(starts ? ['src', 'src/cli'] : [])])
  run(process.execPath, [at('scripts/build-cli.mjs')])
  run(process.execPath, [at('scripts/build-kernels.mjs')])
  if (!starts || age('dist/studio/page/index.html') > 0) run(process.execPath, [at('scripts/build-studio.mjs')])
}
