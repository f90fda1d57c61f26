/** Emitted code cuts attention of a part of a sequence into the blocks that fused ops know: the cut, held to the formulas. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { later } from './families.js'
import { findPython, noPython, oneThread } from './python.js'

const python = findPython()
const pathOf = (path: string) => fileURLToPath(new URL(path, import.meta.url))

later(
  'blocks of queries and keys, gathered and turn by turn, are attention',
  {
    skip: python ? false : noPython,
  },
  () => {
    const args = [pathOf('../../test/attention_parts.py'), pathOf('../../src/emit')]
    assert.match(
      execFileSync(python!, args, { encoding: 'utf8', env: { ...oneThread, PYTHONDONTWRITEBYTECODE: '1' } }),
      /^ok$/m,
    )
  },
)
