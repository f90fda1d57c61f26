// Builds what is packed from nothing: what was compiled from files that are gone would be shipped too.
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
rmSync(join(root, 'dist/src'), { recursive: true, force: true })
execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-b', '--force'], { stdio: 'inherit' })
execFileSync(process.execPath, [join(root, 'scripts/build-cli.mjs')], { stdio: 'inherit' })
execFileSync(process.execPath, [join(root, 'scripts/build-studio.mjs'), '--force'], { stdio: 'inherit' })
