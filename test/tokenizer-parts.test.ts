/** Parts of tokenizer.json files that packages read differently: pieces and ids are those that tokenizers 0.23 of Python gives. */
import { deepEqual, equal, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { readTokenizer } from '../src/data/index.js'

const empty = { version: '1.0', added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null }
const bytes = (text: string) => new TextEncoder().encode(text)

/** A list of words: a piece that is one of them has its number, counted from 1; any other 0. */
const wordsOf = (words: readonly string[], parts: object) =>
  readTokenizer(
    JSON.stringify({
      ...{ ...empty, decoder: null, ...parts },
      model: {
        ...{ type: 'WordLevel', unk_token: '<unk>' },
        vocab: Object.fromEntries(['<unk>', ...new Set(words)].map((word, id) => [word, id])),
      },
    }),
    'words',
  )

async function isCutInto(part: object, text: string, pieces: readonly string[]): Promise<void> {
  const tokenizer = await wordsOf(pieces, { pre_tokenizer: part })
  const distinct = [...new Set(pieces)]
  deepEqual(
    Array.from(tokenizer.encode(bytes(text)), id => distinct[id - 1] ?? '?'),
    pieces,
    JSON.stringify(part),
  )
}

// A fraction, the two characters that only some call space, a letter of two places.
const text = 'Ab12½ x\ufeffy\u0085z, «q»--wé  e𝔘!'
const [start, middle] = ['Ab12½ x\ufeffy\u0085z', 'x\ufeffy']
const split = (behavior: string, invert: boolean) => ({
  ...{ type: 'Split', pattern: { Regex: '[,\\-]|\\s' }, behavior, invert },
})
const each = ['Ab12½', ' ', middle, '\u0085', 'z', ',', ' ', '«q»', '-', '-', 'wé', ' ', ' ', 'e𝔘!']
const before = ['Ab12½ ', 'x\ufeffy\u0085', 'z,', ' ', '«q»-', '-', 'wé ', ' ', 'e𝔘!']
const behind = ['Ab12½', ' x\ufeffy', '\u0085z', ',', ' «q»', '-', '-wé', ' ', ' e𝔘!']
const runs = ['Ab12½', ' ', middle, '\u0085', 'z', ', ', '«q»', '--', 'wé', '  ', 'e𝔘!']

const cut: readonly (readonly [part: object, pieces: readonly string[]])[] = [
  [{ type: 'Digits', individual_digits: true }, ['Ab', '1', '2', '½', text.slice(5)]],
  [{ type: 'Digits', individual_digits: false }, ['Ab', '12½', text.slice(5)]],
  [{ type: 'Whitespace' }, ['Ab12', '½', 'x', '\ufeff', 'y', 'z', ',', '«', 'q', '»--', 'wé', 'e𝔘', '!']],
  [{ type: 'WhitespaceSplit' }, ['Ab12½', middle, 'z,', '«q»--wé', 'e𝔘!']],
  [{ type: 'BertPreTokenizer' }, ['Ab12½', middle, 'z', ',', '«', 'q', '»', '-', '-', 'wé', 'e𝔘', '!']],
  [{ type: 'CharDelimiterSplit', delimiter: '-' }, [`${start}, «q»`, 'wé  e𝔘!']],
  [{ type: 'FixedLength', length: 4 }, ['Ab12', '½ x\ufeff', 'y\u0085z,', ' «q»', '--wé', '  e𝔘', '!']],
  [{ type: 'Punctuation', behavior: 'Isolated' }, [start, ',', ' ', '«', 'q', '»', '-', '-', 'wé  e𝔘', '!']],
  [{ type: 'Punctuation', behavior: 'Removed' }, [start, ' ', 'q', 'wé  e𝔘']],
  [{ type: 'Punctuation', behavior: 'MergedWithPrevious' }, [`${start},`, ' «', 'q»', '-', '-', 'wé  e𝔘!']],
  [{ type: 'Punctuation', behavior: 'MergedWithNext' }, [start, ', ', '«q', '»', '-', '-wé  e𝔘', '!']],
  [{ type: 'Punctuation', behavior: 'Contiguous' }, [start, ',', ' ', '«', 'q', '»--', 'wé  e𝔘', '!']],
  [split('Isolated', false), each],
  [split('Isolated', true), each],
  [split('Removed', false), ['Ab12½', middle, 'z', '«q»', 'wé', 'e𝔘!']],
  [split('Removed', true), [' ', '\u0085', ',', ' ', '-', '-', ' ', ' ']],
  [split('MergedWithPrevious', false), before],
  [split('MergedWithPrevious', true), behind],
  [split('MergedWithNext', false), behind],
  [split('MergedWithNext', true), before],
  [split('Contiguous', false), runs],
  [split('Contiguous', true), runs],
  [{ ...split('Removed', false), pattern: { String: '-' } }, [`${start}, «q»`, 'wé  e𝔘!']],
]

for (const [part, pieces] of cut)
  test(`${JSON.stringify(part)} cuts as the package of Python does`, () => isCutInto(part, text, pieces))

test('bytes are cut where the package of Python cuts them: U+FEFF is no space, U+0085 is one', () =>
  isCutInto({ type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true }, 'a \ufeffb \u0085c', [
    'a',
    '\u0120\u00ef\u00bb\u00bf',
    'b',
    '\u0120',
    '\u00c2\u0127',
    'c',
  ]))

test('a sigma at the end is small as any other, and only spaces are stripped', async () => {
  const idsOf = async (normalizer: object, written: string, meant: string) =>
    Array.from((await wordsOf([meant], { normalizer })).encode(bytes(written)))
  deepEqual(await idsOf({ type: 'Lowercase' }, 'ΟΔΟΣ', 'οδοσ'), [1])
  const both = { type: 'Strip', strip_left: true, strip_right: true }
  deepEqual(await idsOf(both, ' \u0085a \ufeff\u0085', 'a \ufeff'), [1])
  deepEqual(await idsOf({ ...both, strip_right: false }, '  a ', 'a '), [1])
})

test('a word that a list of words lacks is the unknown one', async () => {
  const tokenizer = await wordsOf(['yes'], { pre_tokenizer: { type: 'WhitespaceSplit' } })
  deepEqual(Array.from(tokenizer.encode(bytes('yes no yes'))), [1, 0, 1])
})

test('where no space is put before a text, none is taken from it', async () => {
  const never = { type: 'Metaspace', replacement: '▁', prepend_scheme: 'never', split: true }
  const tokenizer = await wordsOf(['▁a', '▁b'], { pre_tokenizer: never, decoder: never })
  equal(new TextDecoder().decode(tokenizer.decode([1, 2])), ' a b')
})

test('a token of whole words, and a prefix of all but the first piece of BPE, are refused', async () => {
  const added = { id: 1, content: 'cat', single_word: true, lstrip: false, rstrip: false, normalized: true }
  await rejects(wordsOf(['cat'], { added_tokens: [added] }), /token "cat" of whole words only \(single_word\)/)
  const model = { type: 'BPE', continuing_subword_prefix: '##', vocab: { a: 0, '##b': 1 }, merges: [] }
  await rejects(
    readTokenizer(JSON.stringify({ ...empty, decoder: null, model }), 'bpe'),
    /continuing_subword_prefix "##" of BPE/,
  )
})
