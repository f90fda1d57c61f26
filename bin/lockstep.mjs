#!/usr/bin/env node
// From a checkout that was never built, build it first: `npx lockstep` is then the only command a reader needs.
import { existsSync } from 'node:fs'
import * as module from 'node:module'

// Half of a short command is V8 that compiles modules; from Node 22 on it can keep what it has compiled.
module.enableCompileCache?.()

const main = new URL('../dist/src/cli/main.js', import.meta.url)
if (!existsSync(main)) await import('../scripts/setup.mjs')
const { run } = await import(main.href)
process.exitCode = await run(process.argv.slice(2))
