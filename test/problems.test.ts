/** Codes of problems: a closed union with a meaning each, printed in docs/problems.md. */
import { deepEqual, equal } from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { problemCodes } from '../src/base/index.js'

const sources = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.ts') && !/problem-code\.ts$/.test(file))
  .map(file => readFileSync(join('src', file), 'utf8'))
  .join('\n')

test('every code of the table is used', () => {
  deepEqual(
    Object.keys(problemCodes).filter(code => !sources.includes(`'${code}'`) && !sources.includes(`'${code}/`)),
    [],
  )
})

test('docs/problems.md is what the table says, in both languages', async () => {
  const { problemsPages } = await import(new URL('../../scripts/problems-page.mjs', import.meta.url).href)
  for (const [path, text] of Object.entries(problemsPages())) equal(readFileSync(path, 'utf8'), text, path)
})
