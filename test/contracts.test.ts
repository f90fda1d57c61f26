/** What C and Python must agree on with our tables is written from them, and the files in git are what is written now. */
import { equal } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

const root = new URL('../../', import.meta.url)
const { contracts } = (await import(new URL('scripts/contracts.mjs', root).href)) as {
  contracts: () => Readonly<Record<string, string>>
}

for (const [path, text] of Object.entries(contracts()))
  test(`${path} is as the tables are (node scripts/contracts.mjs writes it)`, () =>
    equal(readFileSync(new URL(path, root), 'utf8'), text))
