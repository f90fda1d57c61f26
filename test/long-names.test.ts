/** What the file system answers is an ordinary error, whichever file it is about. */
import { equal, match } from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { kindOf, nodeFiles } from '../src/node/index.js'
import { lockstep } from './memory-io.js'

const folder = mkdtempSync(join(tmpdir(), 'lockstep-'))
after(() => rmSync(folder, { recursive: true }))
const job = join(folder, 'job.yaml')
writeFileSync(
  job,
  'model: { family: gpt, layers: 2, embed: 8, heads: 2, vocab: 16 }\ntraining: { seq: 8, globalBatch: 2 }\nplan: { dp: 2 }\n',
)
const long = join(folder, 'a'.repeat(400))

for (const [what, argv] of [
  ['a drawing', ['simulate', job, '--cluster', 'h100', '--svg', long]],
  ['a trace', ['simulate', job, '--cluster', 'h100', '--trace', long]],
  ['an export', ['export', job, '--to', 'deepspeed', '--out', long]],
] as const)
  test(`${what} under a name that is too long is no bug of ours`, async () => {
    const { code, err } = await lockstep(argv, {}, { ...nodeFiles(), kindOf })
    equal(code, 1)
    match(err, /^error: .*the name is too long \[(run\/write|file\/unreadable)\]$/m)
  })
