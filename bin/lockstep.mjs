#!/usr/bin/env node
// From a checkout that was never built, build it first: `npx lockstep` is then the only command a reader needs.
import { existsSync } from 'node:fs'
import * as module from 'node:module'
import { freshBundle, loadBundle } from './bundle.mjs'

const main = new URL('../dist/src/cli/main.js', import.meta.url)
const isThere = path => existsSync(new URL(path, import.meta.url))
if (!existsSync(main)) await import('../scripts/setup.mjs')

/** The modules themselves where they were compiled since they were bundled, and where a stack is to name their lines. */
function loadModules() {
  module.enableCompileCache?.()
  return import(main.href)
}

const [command = ''] = process.argv.slice(2)
// `npm start` does not build the pages.
if (command === 'studio' && isThere('../studio/vite.config.ts') && !isThere('../dist/studio/page/index.html')) {
  console.error('lockstep: building the studio, once')
  await import('../scripts/build-studio.mjs')
}
const bundle = process.env.LOCKSTEP_DEBUG ? undefined : freshBundle()
const { run } = bundle
  ? await loadBundle(bundle, /^[a-z][a-z-]*$/.test(command) ? command : 'none')
  : await loadModules()
process.exitCode = await run(process.argv.slice(2))
