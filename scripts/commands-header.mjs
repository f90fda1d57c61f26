// Writes kernels/commands.h from the command table, so that both sides agree by construction.
import { writeFileSync } from 'node:fs'
import { commands } from '../dist/src/engine/native/lower/commands.js'

const upper = name => name.replace(/[A-Z]/g, c => `_${c}`).toUpperCase()
const lines = [
  '// Written by scripts/commands-header.mjs from src/engine/native/lower/commands.ts. Do not edit.',
  '#pragma once',
  '',
  'enum {',
]
for (const name of Object.keys(commands)) lines.push(`  CMD_${upper(name)},`)
lines.push('  CMD_COUNT', '};', '')
for (const [name, words] of Object.entries(commands))
  for (const [i, word] of words.entries())
    if (!word.startsWith('...')) lines.push(`#define ${upper(name)}_${upper(word)} ${i}`)
writeFileSync(new URL('../kernels/commands.h', import.meta.url), `${lines.join('\n')}\n`)
