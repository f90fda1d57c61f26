/**
 * Parts of a tokenizer.json that Hugging Face's package for JavaScript reads otherwise than the one for Rust, which
 * made the file: they are written as parts that both read alike. What cannot be is refused.
 */
type Part = Readonly<Record<string, unknown>>

/** A tokenizer.json with the same meaning. Throws an Error fit to print. */
export function samePartsEverywhere<T extends object>(tokenizer: T): T {
  const { normalizer, pre_tokenizer, decoder, model, added_tokens } = tokenizer as Part // what JSON.parse made
  const prefix = Object(model).type === 'BPE' ? Object(model).continuing_subword_prefix : undefined
  if (prefix)
    throw new Error(`has continuing_subword_prefix ${JSON.stringify(prefix)} of BPE, which is not supported here`)
  const whole = Array.isArray(added_tokens) ? added_tokens.find(token => Object(token).single_word === true) : undefined
  if (whole)
    throw new Error(
      `has token ${JSON.stringify(whole.content)} of whole words only (single_word), which is not supported here`,
    )
  return {
    ...tokenizer,
    normalizer: rewritten(normalizer, 'normalizers', normalizers),
    pre_tokenizer: rewritten(pre_tokenizer, 'pretokenizers', preTokenizers),
    decoder: rewritten(decoder, 'decoders', decoders),
  }
}

type Rewriting = (part: Part) => Part | undefined

function rewritten(part: unknown, sequence: string, by: Readonly<Record<string, Rewriting>>): unknown {
  if (typeof part !== 'object' || part === null) return part
  const { type, [sequence]: inner } = part as Part // an object
  if (type === 'Sequence' && Array.isArray(inner))
    return { ...part, [sequence]: inner.map(one => rewritten(one, sequence, by)) }
  return (Object.hasOwn(by, String(type)) ? by[String(type)](part as Part) : undefined) ?? part
}

const removed = (Regex: string): Part => ({ type: 'Replace', pattern: { Regex }, content: '' })

const normalizers: Readonly<Record<string, Rewriting>> = {
  // In JavaScript the sigma at the end of a word has a small letter of its own.
  Lowercase: part => ({
    type: 'Sequence',
    normalizers: [{ type: 'Replace', pattern: { String: 'Σ' }, content: 'σ' }, part],
  }),
  // U+FEFF is space in JavaScript only, U+0085 elsewhere only: here and below, patterns know that.
  Strip: ({ strip_left: left, strip_right: right }) => ({
    type: 'Sequence',
    normalizers: [...(left ? [removed('\\A\\s+')] : []), ...(right ? [removed('\\s+\\z')] : [])],
  }),
}

const gpt2Words = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
/** Characters of words, to the regular expressions of Rust. */
const inWords = '\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u200c\\u200d'
const punctuation = '[\\p{P}!-/:-@\\[-`{-~]'

const split = (Regex: string, behavior = 'Isolated', invert = false): Part => ({
  ...{ type: 'Split', pattern: { Regex }, behavior, invert },
})

const preTokenizers: Readonly<Record<string, Rewriting>> = {
  Split: ({ pattern, behavior, invert }) => {
    const { Regex, String: text } = Object(pattern)
    const regex = typeof Regex === 'string' ? Regex : typeof text === 'string' ? escaped(text) : undefined
    return regex === undefined ? undefined : splitBy(regex, String(behavior), invert === true)
  },
  Punctuation: ({ behavior }) => splitBy(punctuation, String(behavior ?? 'Isolated'), false),
  Digits: ({ individual_digits: each }) => split(each ? '\\p{N}' : '\\p{N}+'),
  Whitespace: () => split(`[${inWords}]+|[^\\s${inWords}]+`, 'Removed', true),
  WhitespaceSplit: () => split('\\s+', 'Removed'),
  BertPreTokenizer: () => ({
    type: 'Sequence',
    pretokenizers: [split('\\s+', 'Removed'), split(punctuation)],
  }),
  CharDelimiterSplit: ({ delimiter }) => split(escaped(String(delimiter)), 'Removed'),
  FixedLength: ({ length }) => split(`[\\s\\S]{1,${Number(length)}}`),
  ByteLevel: part =>
    part.use_regex === false || part.add_prefix_space !== false
      ? undefined
      : { type: 'Sequence', pretokenizers: [split(gpt2Words), { ...part, use_regex: false }] },
  // As files had it before there was a scheme.
  Metaspace: part =>
    part.prepend_scheme === undefined && part.add_prefix_space === false
      ? { ...part, prepend_scheme: 'never' }
      : undefined,
}

/** Their package isolates what is found, and can leave it or all else out: other ways to cut are other patterns. */
function splitBy(regex: string, behavior: string, invert: boolean): Part {
  const untilNext = `(?:(?!${regex})[\\s\\S])*`
  switch (behavior) {
    case 'Removed':
      return split(regex, 'Removed', invert)
    case 'Contiguous':
      return split(`(?:${regex})+`)
    case 'MergedWithPrevious':
      return split(invert ? `(?:${regex})${untilNext}` : `[\\s\\S]*?(?:${regex})`)
    case 'MergedWithNext':
      return split(invert ? `[\\s\\S]*?(?:${regex})` : `(?:${regex})${untilNext}`)
    case 'Isolated':
      return split(regex)
    default:
      throw new Error(`splits in a way that is not known: ${behavior}`)
  }
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

const decoders: Readonly<Record<string, Rewriting>> = {
  Metaspace: ({ replacement, prepend_scheme: scheme, add_prefix_space: prefix }) =>
    scheme === 'never' || (scheme === undefined && prefix === false)
      ? { type: 'Replace', pattern: { String: replacement ?? '▁' }, content: ' ' }
      : undefined,
}
