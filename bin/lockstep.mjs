#!/usr/bin/env node
// From a checkout that was never built, build it first: `npx lockstep` is then the only command a reader needs.
import { existsSync } from 'node:fs'

const main = new URL('../dist/src/cli/main.js', import.meta.url)
if (!existsSync(main)) await import('../scripts/setup.mjs')
const { run } = await import(main.href)
process.exitCode = await run(process.argv.slice(2))
