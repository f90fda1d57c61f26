/**
 * The words of the text form: how each small thing is written and read back. A codec is a pair of functions
 * that are each other's inverse; the attributes of every instruction kind are a total table of codecs, so an
 * attribute added to an instruction does not compile until it can be written down.
 */
import {
  type Axis,
  type Blocks,
  type ChoiceGroups,
  type Combine,
  codeTypes,
  type Dim,
  type Dropout,
  isAxis,
  type Layout,
  type Lines,
  type RopeScaling,
  roomOrders,
  ropeScalingNumbers,
  type Scaler,
  type Shares,
  scaleRules,
  scalerKinds,
  scalerNumbers,
  scorings,
  type Turn,
  trackingAlgos,
} from '../../base/index.js'
import type { Group, InstrKind, InstrOf } from '../instr.js'
import { unreadable } from './phrases.js'

export interface Codec<T> {
  readonly show: (value: T) => string
  /** A word that the line does not have is undefined. */
  readonly read: (text: string | undefined) => T
}

const quoted = (safe: RegExp): Codec<string> => ({
  show: text => (safe.test(text) ? text : JSON.stringify(text)),
  read(text = '') {
    if (text === '') unreadable('program/text/no-name')
    if (!text.startsWith('"') && !safe.test(text)) unreadable('program/text/name', { found: text })
    const name: string = text.startsWith('"') ? JSON.parse(text) : text
    return name in Object.prototype ? unreadable('program/text/reserved', { found: name }) : name // records would inherit it
  },
})

/** A name inside a compound word such as `batch:2/dp`: what separates there must be quoted. */
export const name = quoted(/^[\w.\-~']+$/)
/** A name that stands alone. */
export const word = quoted(/^[\w.\-#~'/:<>*+][\w.\-#~'/:<>*+@,]*$/)

export const number: Codec<number> = {
  show: n => [String(n), n.toExponential()].reduce((a, b) => (b.length < a.length ? b : a)),
  read: (text = '') =>
    text !== '' && !Number.isNaN(Number(text))
      ? Number(text)
      : text === ''
        ? unreadable('program/text/no-number')
        : unreadable('program/text/number', { found: text }),
}

/** An index or -1, which stands for none. */
export const index: Codec<number> = {
  show: number.show,
  read(text) {
    const n = number.read(text)
    return Number.isSafeInteger(n) && n >= -1 ? n : unreadable('program/text/index', { found: text ?? '' })
  },
}

/** How many there are of something, or which of them is meant. */
export const count: Codec<number> = {
  show: number.show,
  read(text) {
    const n = number.read(text)
    return Number.isSafeInteger(n) && n >= 0 ? n : unreadable('program/text/count', { found: text ?? '' })
  },
}

export const flag: Codec<boolean> = {
  show: String,
  read: (text = '') => text === 'true' || (text !== 'false' && unreadable('program/text/flag', { found: text })),
}

export const listOf = <T>(item: Codec<T>): Codec<readonly T[]> => ({
  show: list => list.map(item.show).join(','),
  read: (text = '') => (text === '' ? [] : cut(text, ',').map(item.read)),
})

/** One of these words and no other. */
export const oneOf = <T extends string>(...choices: readonly T[]): Codec<T> => ({
  show: text => text,
  read: (text = '') =>
    choices.find(choice => choice === text) ??
    (text === ''
      ? unreadable('program/text/no-word', { words: { joint: ',', of: choices } })
      : unreadable('program/text/word', { found: text, words: { joint: ',', of: choices } })),
})

const axis: Codec<Axis> = {
  show: text => text,
  read: (text = '') => (isAxis(text) ? text : unreadable('program/text/axis', { found: text })),
}
export const axes = listOf(axis)
export const counts = listOf(count)
const combine = oneOf<Combine>('sum', 'max')

const dropout: Codec<Dropout> = {
  show: ({ rate, key }) => `${number.show(rate)}:${name.show(key)}`,
  read: (text = '') => {
    const [rate, key] = cut(text, ':')
    return { rate: number.read(rate), key: name.read(key) }
  },
}

const ropeKind = oneOf(...(Object.keys(ropeScalingNumbers) as RopeScaling['kind'][])) // its own keys

/** The kind, then its numbers: `llama3:8:1:4:8192`. */
const ropeScaling: Codec<RopeScaling> = {
  show: ({ kind, ...numbers }) =>
    [kind, ...ropeScalingNumbers[kind].map(of => number.show(numbers[of as never]))].join(':'), // each kind has its own
  read: (text = '') => {
    const [word, ...numbers] = cut(text, ':')
    const kind = ropeKind.read(word)
    const names: readonly string[] = ropeScalingNumbers[kind]
    if (numbers.length !== names.length)
      unreadable('program/text/numbers', { found: text, numbers: names.length, kind })
    return { kind, ...Object.fromEntries(names.map((of, i) => [of, number.read(numbers[i])])) } as RopeScaling // all of them
  },
}

/** Dims, and into how many blocks each is cut: `embed:64/1,ffn:128/2`. */
const lines: Codec<Lines> = {
  show: ({ dims, blocks }) => dims.map(({ name: of, size }, i) => `${of}:${size}/${blocks[i]}`).join(),
  read: (text = '') => {
    const each = text.split(',').map(dim => cut(dim.replace('/', ':'), ':'))
    const dims = each.map(([of, size]) => ({ name: of, size: count.read(size) }))
    return { dims, blocks: each.map(([, , ways]) => count.read(ways)) }
  },
}

const scalerKind = oneOf(...scalerKinds)

/** The kind, then its numbers: `torch:2:0.5:2000`. */
const scaler: Codec<Scaler> = {
  show: ({ kind, ...numbers }) => [kind, ...scalerNumbers[kind].map(of => number.show(numbers[of as never]))].join(':'), // each kind has its own
  read: (text = '') => {
    const [word, ...numbers] = cut(text, ':')
    const kind = scalerKind.read(word)
    const names: readonly string[] = scalerNumbers[kind]
    if (numbers.length !== names.length)
      unreadable('program/text/numbers', { found: text, numbers: names.length, kind })
    return { kind, ...Object.fromEntries(names.map((of, i) => [of, number.read(numbers[i])])) } as Scaler // all of them
  },
}

const code = oneOf(...codeTypes)
const scaledBy = oneOf('scale', ...scaleRules)
const greatest = oneOf('max')

/** `batch:1,seq:1,embed:128`; `-` where there is one for all. */
const blocks: Codec<Blocks> = {
  show: of =>
    Object.entries(of)
      .map(([dim, size]) => `${name.show(dim)}:${size}`)
      .join() || '-',
  read: (text = '') =>
    text === '-'
      ? {}
      : Object.fromEntries(
          cut(text, ',')
            .map(part => atMost(2, cut(part, ':')))
            .map(([dim, size]) => [name.read(dim), count.read(size)]),
        ),
}

/** Of one operand after the other. */
const eachBlocks: Codec<readonly Blocks[]> = {
  show: all => all.map(blocks.show).join('/'),
  read: (text = '') => cut(text, '/').map(blocks.read),
}
const scaling = { formats: listOf(code), blocks: eachBlocks, by: scaledBy }

const group: Codec<Group> = {
  show: ({ axes: along, stages }) => axes.show(along) + (stages ? `@${counts.show(stages)}` : ''),
  read: (text = '') => {
    const [along, stages] = cut(text, '@')
    return { axes: axes.read(along), ...(stages === undefined ? {} : { stages: counts.read(stages) }) }
  },
}

/** Cut at a separator, but not inside quotes. */
export function cut(text: string, separator: string): string[] {
  const parts = ['']
  for (const piece of text.match(/"(?:[^"\\]|\\.)*"|[^"]/g) ?? [])
    if (piece === separator) parts.push('')
    else parts[parts.length - 1] += piece
  return parts
}

type Attribute<K extends InstrKind> = Exclude<keyof InstrOf<K>, 'kind' | 'ins' | 'outs' | 'in' | 'out' | 'on'>
type Attributes = {
  readonly [K in InstrKind]: { readonly [A in Attribute<K>]-?: Codec<NonNullable<InstrOf<K>[A]>> }
}

const once: Codec<readonly string[]> = listOf(name)

/** What all optimizers are told. */
const moments = { beta1: number, beta2: number, eps: number }
const updating = { weightDecay: number, clip: number, limit: number, rate: number, stochastic: flag }

/** `4/8`: four of eight groups. */
const choiceGroups: Codec<ChoiceGroups> = {
  show: ({ groups, chosenGroups }) => `${chosenGroups}/${groups}`,
  read: (text = '') => {
    const [chosenGroups, groups] = atMost(2, cut(text, '/')).map(count.read)
    return { groups, chosenGroups }
  },
}

export const attributes: Attributes = {
  contract: {},
  absMax: { blocks },
  quantize: { format: code, blocks, by: scaledBy },
  ...{ scaledContract: scaling, scaledExpertContract: scaling, scaledExpertWeightGrad: scaling },
  add: {},
  mul: {},
  scale: { by: number },
  sumTo: {},
  gelu: { approximate: flag },
  geluGrad: { approximate: flag },
  swiglu: {},
  swigluGrad: {},
  layerNorm: { eps: number },
  layerNormInputGrad: { eps: number },
  layerNormWeightGrad: { eps: number },
  rmsNorm: { eps: number },
  rmsNormInputGrad: { eps: number },
  rmsNormWeightGrad: { eps: number },
  ...{ join: {}, joinGrad: {} },
  rope: { theta: number, inverse: flag, scaling: ropeScaling },
  attention: { window: number, dropout, scale: number },
  attentionGrad: { window: number, dropout, scale: number },
  attentionMerge: {},
  dropout: { dropout },
  embed: {},
  embedGrad: {},
  maxOver: {},
  sumExp: {},
  pick: {},
  ...{ tokenLoss: {}, tokenLossGrad: {}, countLabels: {} },
  ...{ squaredError: {}, squaredErrorGrad: {}, countElements: {} },
  sigmoid: {},
  sigmoidGrad: {},
  scores: { by: oneOf(...scorings) },
  scoresGrad: { by: oneOf(...scorings) },
  topK: { groups: choiceGroups },
  chosen: { normalise: flag, scale: number },
  chosenGrad: { normalise: flag, scale: number },
  assign: { room: count, tokens: count, order: oneOf(...roomOrders) },
  rowsOf: { guarded: flag },
  ...{ dispatch: {}, combine: {}, expertContract: {}, expertWeightGrad: {} },
  weightedSwiglu: {},
  weightedSwigluGrad: {},
  countChoices: {},
  countTop: { chosen: count },
  balanceLoss: { by: number, shares: flag },
  balanceLossGrad: { by: number, shares: flag },
  zLoss: { by: number },
  zLossGrad: { by: number },
  balance: { rate: number, mean: number, limit: number },
  ...{ zero: {}, deduct: {}, beside: {} },
  accumulate: { combine: greatest },
  track: { format: code, margin: count, algo: oneOf(...trackingAlgos), limit: number },
  blend: { beta1: number, ranks: count },
  gramSchmidt: { inputs: count, draws: flag },
  become: { limit: number },
  ...{ greatest: { ratio: number, blocks: counts }, scatter: { ratio: number, blocks: counts } },
  sumSquares: { once },
  lambSquares: { ...moments, weightDecay: number, clip: number },
  muonMean: { momentum: number, nesterov: flag, clip: number },
  newtonSchulz: { inputs: count, steps: count, products: oneOf('f32', 'bf16'), lines },
  ...{ stack: {}, unstack: {} },
  pack: { run: count, parts: count, signs: oneOf('line', 'part'), blocks: counts },
  unpack: { run: count, parts: count, signs: oneOf('line', 'part'), blocks: counts },
  factorSquares: { inputs: count, rows: count, columns: count, clip: number },
  adafactorSquares: { beta2Decay: number, eps1: number, inputs: count, clip: number },
  average: { decay: number, limit: number },
  unscale: {},
  weigh: {},
  take: { scaler, limit: number },
  adamw: { ...moments, coupled: flag, amsgrad: flag, uncorrected: flag, frozen: flag, ...updating },
  sgd: { momentum: number, nesterov: flag, dampening: number, ...updating },
  lion: { beta1: number, beta2: number, ...updating },
  lamb: { ...moments, always: flag, ...updating },
  muon: { momentum: number, stretch: number, ...updating },
  adafactor: {
    ...{ beta2Decay: number, eps1: number, eps2: number, clipThreshold: number, elements: count, inputs: count },
    ...updating,
  },
  'all-reduce': { combine, group },
  'all-gather': { dim: name, group },
  'reduce-scatter': { dim: name, group },
  'all-to-all': { from: name, to: name, group },
  shift: { by: number, group },
  'all-dispatch': { group },
  'all-combine': { group },
  move: { group },
  wait: {},
  slice: { dim: name, axes },
  load: { input: word },
}

/** A tensor's dims and layout together: `[batch:2/dp seq:16/tp embed:64] sum:tp`, `[embed:64 ffn:32/tp] flat/dp`. */
export interface DimsAndLayout {
  readonly dims: readonly Dim[]
  readonly layout: Layout
}

const show = (dim: string, size: string, split: readonly Axis[] | undefined, turn: Layout['turn']) =>
  name.show(dim) + size + (split === undefined ? '' : `/${showSplit(split, turn)}`)

function showSplit(split: readonly Axis[], turn: Layout['turn']): string {
  const last = turn && split.slice(0, turn.axes.length).join() === turn.axes.join() ? turn.axes.length - 1 : -1
  return split.map((along, i) => (i === last ? `${along}+${turn?.by}` : along)).join(',')
}

/** `cp=0,1/0,1,2`: what is there of the turns 0, 1 and 2 along cp are the first two. */
const shares: Codec<Shares> = {
  show: ({ axes: along, held, needed }) => `${axes.show(along)}=${counts.show(held)}/${counts.show(needed)}`,
  read: (text = '') => {
    const [along, turns] = atMost(2, text.split('='))
    const [held, needed] = atMost(2, (turns ?? '').split('/'))
    return { axes: axes.read(along), held: counts.read(held), needed: counts.read(needed) }
  },
}

/** Axes that split a dim, and how far parts have gone round along those that stand before it: `cp+1,tp`, `cp.0.0,cp.0.1+3`. */
function readSplit(text: string): { split: Axis[]; turns: Turn[] } {
  const pairs = (text === '' ? [] : cut(text, ',')).map(part => atMost(2, part.split('+')))
  const split = pairs.map(([along]) => axis.read(along))
  const turns = pairs.flatMap(([, by], i) =>
    by === undefined ? [] : [{ axes: split.slice(0, i + 1), by: count.read(by) }],
  )
  return { split, turns }
}

export function showShaped({ dims, layout }: DimsAndLayout): string {
  const own = new Set(dims.map(dim => dim.name))
  const parts = dims.map(dim => show(dim.name, `:${dim.size}`, layout.splits[dim.name], layout.turn))
  const others = Object.keys(layout.splits).filter(dim => !own.has(dim))
  const bracket = `[${[...parts, ...others.map(dim => show(dim, '', layout.splits[dim], layout.turn))].join(' ')}]`
  const flat = layout.flat ? [`flat/${axes.show(layout.flat)}`] : []
  const share = layout.shares ? [`share:${shares.show(layout.shares)}`] : []
  return [bracket, ...flat, ...share, ...Object.entries(layout.partial).map(([along, how]) => `${how}:${along}`)].join(
    ' ',
  )
}

/** A layout alone: the split dims only, `[ffn/tp] sum:dp`. */
export const showLayout = (layout: Layout): string => showShaped({ dims: [], layout })

/** The words themselves, unless there are more of them than a line, or a word made of several, has room for. */
export function atMost(most: number, words: readonly string[]): readonly string[] {
  if (words.length > most) unreadable('program/text/more', { found: words[most] })
  return words
}

/** The first word is the bracket, the others are the flat axes, the shares and the partial axes. */
export function readShaped([bracket = '', ...rest]: readonly string[]): DimsAndLayout {
  if (!/^\[.*\]$/.test(bracket)) unreadable('program/text/dims', { found: bracket })
  const dims: Dim[] = []
  const splits: Record<string, readonly Axis[]> = {}
  const turns: Turn[] = []
  for (const part of cut(bracket.slice(1, -1), ' ').filter(text => text !== '')) {
    const [sized, split] = atMost(2, cut(part, '/'))
    const [dim, size] = atMost(2, cut(sized, ':'))
    if (size === undefined && split === undefined) unreadable('program/text/dim', { found: part })
    if (size !== undefined) dims.push({ name: name.read(dim), size: count.read(size) })
    if (split === undefined) continue
    const read = readSplit(split)
    splits[name.read(dim)] = read.split
    turns.push(...read.turns)
  }
  if (turns.length > 1) unreadable('program/text/turns', { found: bracket })
  const flat = rest.find(text => text.startsWith('flat/'))
  const share = rest.find(text => text.startsWith('share:'))
  const partials = rest.filter(text => text !== flat && text !== share)
  const pairs = partials
    .map(text => atMost(2, text.split(':')))
    .map(([how, along]) => [axis.read(along), combine.read(how)])
  const more = {
    ...(flat === undefined ? {} : { flat: axes.read(flat.slice('flat/'.length)) }),
    ...(turns.length === 0 ? {} : { turn: turns[0] }),
    ...(share === undefined ? {} : { shares: shares.read(share.slice('share:'.length)) }),
  }
  return { dims, layout: { splits, partial: Object.fromEntries(pairs), ...more } }
}
