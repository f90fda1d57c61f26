// Writes what other languages must agree on with the tables of src: kernels/commands.h and files of emit/runtime.
// A test writes them again and compares.
import { realpathSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { codeTypes, elementFacts, elementTypes, scalerKinds, software } from '../dist/src/base/index.js'
import {
  combines,
  commandNames,
  commands,
  contract,
  counts,
  errorMeanings,
  Status,
  Sync,
  severalKinds,
  statusWords,
  tuningWords,
} from '../dist/src/engine/native/lower/commands.js'

const upper = name =>
  name
    .replace(/[A-Z]/g, c => `_${c}`)
    .replaceAll('-', '_')
    .toUpperCase()

const enumOf = (prefix, names, notes = {}) => [
  'enum {',
  ...names.map(name => `  ${prefix}_${upper(name)},${notes[name] ? `  // ${notes[name]}` : ''}`),
  `  ${prefix}_COUNT`,
  '};',
]

/** A macro of several lines. */
const macro = (head, lines) => [`#define ${head}`, ...lines].map((line, i) => (i < lines.length ? `${line} \\` : line))

const withKernel = commandNames.filter(name => name !== 'end')

const commandsHeader = () =>
  `${[
    '// Written by scripts/contracts.mjs from src/engine/native/lower/commands.ts and src/base/dtype.ts. Do not edit.',
    '#pragma once',
    '',
    '// Of all below: kernels that were compiled for other tables are not run.',
    `#define LOCKSTEP_CONTRACT ${contract}`,
    '',
    ...enumOf('CMD', commandNames),
    '',
    '// The words of each command.',
    ...Object.entries(commands).flatMap(([name, words]) =>
      words.flatMap((word, i) => (word.startsWith('...') ? [] : [`#define ${upper(name)}_${upper(word)} ${i}`])),
    ),
    '',
    '// One function per command. They are hidden so that a library that lacks one does not link.',
    'struct context;',
    '#define COMMAND(name) __attribute__((visibility("hidden"))) void cmd_##name(struct context *c, const double *w)',
    ...withKernel.map(name => `COMMAND(${name});`),
    ...macro('COMMAND_TABLE', ['{', ...withKernel.map(name => `  [CMD_${upper(name)}] = cmd_${name},`), '}']),
    '',
    '// What exec returns.',
    ...enumOf('LOCKSTEP', Object.keys(errorMeanings), errorMeanings),
    '',
    "// A rank's status block: i32 words, then live and peak bytes of the kinds of memory.",
    ...enumOf('STATUS', statusWords),
    `#define STATUS_LIVE_BYTES ${Status.live}`,
    `#define MEMORY_KINDS ${counts}`,
    '',
    '// How kernels are tuned to a machine: i32 words.',
    ...enumOf('TUNING', tuningWords),
    '',
    '// The lines that ranks wait at, in i32 words.',
    `enum { LINE = ${Sync.lineBytes / 4}, MESSAGE_X = ${Sync.messageX / 4}, MESSAGE_OUT = ${Sync.messageOut / 4} };`,
    '',
    '// How a collective makes one number of many.',
    ...enumOf('COMBINE', combines),
    '',
    '// What is done to several tensors at one collective.',
    ...enumOf('SEVERAL', severalKinds),
    '',
    '// How the scale of gradients moves.',
    ...enumOf('SCALER', scalerKinds),
    '',
    '// What its elements are.',
    ...enumOf('DTYPE', elementTypes),
    `#define DTYPE_BYTES {${elementTypes.map(type => elementFacts[type].bytes).join(', ')}}`,
    ...macro('DTYPES(X)', [`  ${elementTypes.map(type => `X(${type})`).join(' ')}`]),
  ].join('\n')}\n`

const pythonDtypes =
  () => `"""Tensor dtypes. Written by scripts/contracts.mjs from src/base/dtype.ts: change it there."""
import torch

# By their names in programs.
DTYPES = {
${elementTypes.map(type => `    "${type}": torch.${elementFacts[type].torch},`).join('\n')}
    # Not in every release of PyTorch.
${codeTypes.map(type => `    "${type}": getattr(torch, "${elementFacts[type].torch}", None),`).join('\n')}
}

# Their names in the header of a safetensors file.
NAMES = {
${elementTypes.map(type => `    torch.${elementFacts[type].torch}: "${elementFacts[type].safetensors}",`).join('\n')}
}
`

const pythonSoftware =
  () => `"""The software named in checkpoints. Written by scripts/contracts.mjs from src/base/software.ts: change it there."""
SOFTWARE = "${software.emitted}"
`

/** By path below the repository. */
export const contracts = () => ({
  'src/emit/runtime/software.py': pythonSoftware(),
  'kernels/commands.h': commandsHeader(),
  'src/emit/runtime/dtypes.py': pythonDtypes(),
})

if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  for (const [path, text] of Object.entries(contracts())) writeFileSync(new URL(`../${path}`, import.meta.url), text)
