/**
 * The tables are total: a fact added to a copy of the sources makes the type-checker name exactly the files that
 * ARCHITECTURE.md ("How to add") says owe an answer. Each fact is added alone.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { fileURLToPath } from 'node:url'
import { family } from './families.js'

const root = fileURLToPath(new URL('../../', import.meta.url))
const copy = join(root, 'dist', `add-a-fact-${process.pid}`)

type Edit = readonly [file: string, from: string, to: string]

/** By the heading in ARCHITECTURE.md: the name `dummy`, written where such a name is added. */
const facts: Readonly<Record<string, readonly Edit[]>> = {
  'An op': [['base/op.ts', "  | { readonly kind: 'swiglu' }", "  | { readonly kind: 'dummy' }\n$&"]],
  'An instruction': [
    ['ir/instr.ts', "  | ({ readonly kind: 'all-to-all' }", "  | ({ readonly kind: 'dummy' } & Pairs)\n$&"],
  ],
  'An axis': [['base/axis.ts', "['tp', 'cp',", "['tp', 'dummy', 'cp',"]],
  'A schedule': [['plan/schedule.ts', "  'gpipe',", "  'dummy',\n$&"]],
  'A precision': [['base/precision.ts', "planPrecisions = ['f32',", "$& 'dummy',"]],
  'A dtype': [
    ['base/dtype.ts', "export const elementTypes = ['f32',", "$& 'dummy',"],
    ['base/dtype.ts', "export const dtypes = ['f32',", "$& 'dummy',"],
  ],
  'An optimizer': [['base/optimizer.ts', 'export type Optimizer =', "$&\n  | { kind: 'dummy'; weightDecay: number }"]],
}

/** '- `base/op-facts.ts`: ...' below the heading. */
function listed(heading: string): string[] {
  const [, section] = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8').split(`\n### ${heading}\n`)
  ok(section, `ARCHITECTURE.md does not say how to add ${heading.toLowerCase()}`)
  return [...section.split('\n#')[0].matchAll(/^- `([\w/.-]+)`/gm)].map(([, file]) => file).sort()
}

function named(): string[] {
  try {
    // Several checkers would each work out the same types, and garbage is not worth collecting: half the time.
    execFileSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', '.', '--singleThreaded'], {
      cwd: copy,
      encoding: 'utf8',
      env: { ...process.env, GOGC: '400' },
    })
    return []
  } catch (e) {
    const { stdout } = e as { stdout: string } // of a compiler that found errors
    const files = [...new Set([...stdout.matchAll(/^src\/([\w/.-]+)\(/gm)].map(([, file]) => file))]
    return files.length > 0 ? files.sort() : [stdout]
  }
}

before(() => {
  mkdirSync(copy, { recursive: true })
  cpSync(join(root, 'src'), join(copy, 'src'), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'), 'dir')
  const { compilerOptions } = JSON.parse(readFileSync(join(root, 'tsconfig.base.json'), 'utf8'))
  const { typeRoots: _, ...options } = compilerOptions
  const alone = { composite: false, declaration: false, sourceMap: false, incremental: false, noEmit: true }
  const config = { compilerOptions: { ...options, ...alone, types: ['node'] }, include: ['src/**/*.ts'] }
  writeFileSync(join(copy, 'tsconfig.json'), JSON.stringify(config))
  writeFileSync(join(copy, 'package.json'), '{ "type": "module" }')
})
after(() => rmSync(copy, { recursive: true, force: true }))

/** Edits the copy; the result takes them back. */
function edited(edits: readonly Edit[]): () => void {
  const texts = new Map<string, string>()
  for (const [file, from, to] of edits) {
    const path = join(copy, 'src', file)
    const text = readFileSync(path, 'utf8')
    ok(text.includes(from), `${file} has no ${from}`)
    if (!texts.has(path)) texts.set(path, text)
    writeFileSync(path, text.replace(from, to))
  }
  return () => {
    for (const [path, text] of texts) writeFileSync(path, text)
  }
}

const tested = family('add a fact', 7)
for (const [heading, edits] of Object.entries(facts))
  tested(`${heading.toLowerCase()}: the type-checker names what ARCHITECTURE.md lists`, () => {
    const restore = edited(edits)
    try {
      deepEqual(named(), listed(heading))
    } finally {
      restore()
    }
  })
