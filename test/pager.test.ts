/** The pager: on a terminal only, for what is longer than the screen. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Io, processIo } from '../src/cli/io.js'
import { lockstep } from './memory-io.js'

const long = ['models']
const screen = { terminal: () => ({ columns: 100, rows: 10 }) }

/** What was shown in which pager, and what was printed. */
async function shown(line: readonly string[], changes: Partial<Io>, isThere = true) {
  const pages: [pager: string, text: string][] = []
  const page = (pager: string, text: string) => {
    pages.push([pager, text])
    return isThere
  }
  const { out, code } = await lockstep(line, {}, { ...changes, page })
  return { code, out, pages }
}

const printed = (await lockstep(long)).out
ok(printed.split('\n').length > 10)

test('a long answer on a terminal is shown in less, or in $PAGER', async () => {
  deepEqual(await shown(long, screen), { code: 0, out: '', pages: [['less -FRX', printed]] })
  const { pages } = await shown(long, { ...screen, env: { PAGER: 'more' } })
  equal(pages[0][0], 'more')
  const own = await shown(long, { ...screen, env: { PAGER: 'more', LOCKSTEP_PAGER: 'most -s' } })
  equal(own.pages[0][0], 'most -s')
})

test('a pipe, JSON, --no-pager, LOCKSTEP_PAGER=, a short answer and a missing pager print as usual', async () => {
  const tall = { terminal: () => ({ columns: 100, rows: 1000 }) }
  for (const [line, changes] of [
    [long, {}],
    [[...long, '--no-pager'], screen],
    [long, { ...screen, env: { LOCKSTEP_PAGER: '' } }],
    [long, { ...screen, env: { PAGER: 'cat' } }],
    [long, tall],
  ] as const)
    deepEqual(await shown(line, changes), { code: 0, out: printed, pages: [] })
  deepEqual((await shown([...long, '--json'], screen)).pages, [])
  equal((await shown(long, screen, false)).out, printed)
})

test('what prints while it runs is not held back', async () => {
  const { pages, out } = await shown(['init', '--yes'], { terminal: () => ({ columns: 100, rows: 1 }) })
  deepEqual(pages, [])
  ok(out.length > 0)
})

test('help of such a command is shown in the pager', async () => {
  equal((await shown(['train', '--help'], screen)).pages.length, 1)
})

test('a real pager reads the text; one that is not there is noticed', () => {
  const { page } = processIo()
  const file = join(mkdtempSync(join(tmpdir(), 'lockstep-pager-')), 'seen')
  ok(page(`cat > ${file}`, 'three\nlong\nlines\n'))
  equal(readFileSync(file, 'utf8'), 'three\nlong\nlines\n')
  equal(page('no-such-pager-here 2> /dev/null', 'text'), false)
})
