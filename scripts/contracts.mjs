// Writes what other languages must agree on with the tables of src: kernels/commands.h and emit/runtime/dtypes.py.
// A test writes both again and compares.
import { realpathSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { elementFacts, elementTypes } from '../dist/src/base/index.js'
import { commands } from '../dist/src/engine/native/lower/commands.js'

const upper = name => name.replace(/[A-Z]/g, c => `_${c}`).toUpperCase()

function commandsHeader() {
  const lines = [
    '// Written by scripts/contracts.mjs from src/engine/native/lower/commands.ts. Do not edit.',
    '#pragma once',
    '',
    'enum {',
  ]
  for (const name of Object.keys(commands)) lines.push(`  CMD_${upper(name)},`)
  lines.push('  CMD_COUNT', '};', '')
  for (const [name, words] of Object.entries(commands))
    for (const [i, word] of words.entries())
      if (!word.startsWith('...')) lines.push(`#define ${upper(name)}_${upper(word)} ${i}`)
  return `${lines.join('\n')}\n`
}

const pythonDtypes =
  () => `"""What tensors are in. Written by scripts/contracts.mjs from src/base/dtype.ts: change it there."""
import torch

# By the names that programs have for them.
DTYPES = {
${elementTypes.map(type => `    "${type}": torch.${elementFacts[type].torch},`).join('\n')}
}

# In the header of a safetensors file.
NAMES = {
${elementTypes.map(type => `    torch.${elementFacts[type].torch}: "${elementFacts[type].safetensors}",`).join('\n')}
}
`

/** By path below the repository. */
export const contracts = () => ({
  'kernels/commands.h': commandsHeader(),
  'src/emit/runtime/dtypes.py': pythonDtypes(),
})

if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  for (const [path, text] of Object.entries(contracts())) writeFileSync(new URL(`../${path}`, import.meta.url), text)
