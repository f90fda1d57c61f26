/** Tokenizers and chat templates of other people, which need not ever end: they are stopped, and main hears of events meanwhile. */
import { deepEqual, equal, match, rejects, throws } from 'node:assert/strict'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { finish } from '../src/base/index.js'
import { readChatTemplate, readTokenizer } from '../src/data/index.js'
import { nodeFiles } from '../src/node/index.js'
import { ownFixture } from './fixtures.js'
import { lockstep } from './memory-io.js'

const bytes = (text: string) => new TextEncoder().encode(text)

/** A list of words, with parts of one's own. */
const tokenizer = (parts: object, ids: object = {}): string =>
  JSON.stringify({
    ...{ version: '1.0', added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null },
    model: { type: 'WordLevel', vocab: { a: 0, b: 1, '[UNK]': 2, ...ids }, unk_token: '[UNK]' },
    ...parts,
  })

const split = (Regex: string) => ({
  pre_tokenizer: { type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false },
})
const replace = (Regex: string, content: string) => ({ type: 'Replace', pattern: { Regex }, content })

/** A clock that stands still until it is wound, and is then past every limit after a few looks. */
function clock() {
  let looks = Number.NEGATIVE_INFINITY
  const wind = () => {
    looks = 0
  }
  return {
    wind,
    stop: () => (looks = Number.NEGATIVE_INFINITY),
    now: () => (looks++ > 3 ? Number.POSITIVE_INFINITY : 0),
  }
}

/** As long as the universe is old. */
const endless = '(a+)+$'
const victim = `${'a'.repeat(40)}!`

test('a pattern that never ends is stopped, and the tokenizer goes on with the next text', async () => {
  for (const parts of [split(endless), { normalizer: replace(endless, 'b'), ...split('\\s+') }]) {
    const { now, wind, stop } = clock()
    const read = await readTokenizer(tokenizer(parts), 'mine.json', { now })
    wind()
    throws(() => read.encode(bytes(victim)), /mine.json: encode of 41 bytes: took longer than 10 s, and may never end/)
    stop()
    deepEqual(Array.from(read.encode(bytes('b'))), [1])
  }
})

test('a normalizer that makes more of a text than a string holds is an error of the file', async () => {
  const grown = replace('a', 'a'.repeat(100_000))
  const read = await readTokenizer(tokenizer({ normalizer: { type: 'Sequence', normalizers: [grown, grown] } }), 'mine')
  throws(() => read.encode(bytes('a')), /mine: encode of 1 byte: Invalid string length/)
})

test('ids that are none are refused when the file is read', async () => {
  for (const id of [-1, 1.5, 1e308, 2 ** 31, 2 ** 24, null, '3'])
    await rejects(
      readTokenizer(tokenizer({}, { odd: id }), 'mine'),
      /gives token "odd" the id .*, not an integer below/,
    )
  const added = [{ id: 2 ** 31, content: '<s>', special: true }]
  await rejects(readTokenizer(tokenizer({ added_tokens: added }), 'mine'), /gives token "<s>" the id 2147483648/)
})

test('a chat template is stopped where it needs too much time or memory', async () => {
  const { now, wind } = clock()
  const rendered = async (text: string) => {
    const work = (await readChatTemplate(text, {}, { now }))([{ role: 'user', content: 'hi' }])
    for (;;) {
      const next = work.next()
      if (next.done) return next.value
      await new Promise(resolve => setImmediate(resolve))
    }
  }
  equal(await rendered('{{ messages[0].content }}!'), 'hi!')
  await rejects(
    rendered('{% for i in range(1000000000) %}a{% endfor %}'),
    /the chat template: (exceeds its memory limit|took longer)/,
  )
  const long = '{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}'
  wind()
  await rejects(rendered(long), /the chat template: took longer than 10 s/)
})

test('an answer that nobody waits for any more is given up', async () => {
  const read = await readTokenizer(tokenizer(split(endless)), 'mine')
  const work = read.encoding(bytes(victim))
  equal(work.next().done, false)
  work.return([])
  deepEqual(Array.from(finish(read.encoding(bytes('b')))), [1])
})

test('Ctrl-C is heard while a tokenizer reads a prompt', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-'))
  cpSync(ownFixture('huggingface/llama'), folder, { recursive: true })
  writeFileSync(join(folder, 'tokenizer.json'), tokenizer(split(endless)))
  const io = {
    ...nodeFiles(),
    onInterrupt(stop: (code: number) => void) {
      setImmediate(() => stop(130))
      return () => {}
    },
  }
  const { code, err } = await lockstep(['generate', folder, '--prompt', victim, '--tokens', '1'], {}, io)
  equal(code, 130)
  match(err, /^(?!internal)/)
  rmSync(folder, { recursive: true })
})

test('a tokenizer that cannot be read is an error with its path', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-'))
  cpSync(ownFixture('huggingface/llama'), folder, { recursive: true })
  writeFileSync(join(folder, 'tokenizer.json'), tokenizer({}, { odd: -1 }))
  const { code, err } = await lockstep(['generate', folder, '--prompt', 'a', '--tokens', '1'], {}, nodeFiles())
  equal(code, 1)
  match(err, /^error: .*tokenizer\.json gives token "odd" the id -1.*\[generate\/tokenizer\]/m)
  rmSync(folder, { recursive: true })
})
