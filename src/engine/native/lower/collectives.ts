/** From a collective and its wait to the commands that do it. */
import { type Dim, elementsOf, roundUp } from '../../../base/index.js'
import { bytesPer, type Collective, type InstrOf, isFlat, isRouted, pairsOf } from '../../../ir/index.js'
import { codeOf } from '../kernels/dtypes.js'
import { type CommandName, combineCode, commands, type SeveralKind, severalKinds } from './commands.js'
import { movesOf, placesOf } from './experts.js'
import { land, layOwn } from './landing.js'
import { wordOf, wordsAt } from './list.js'
import type { RankCollective } from './rendezvous.js'
import { refuse } from './shapes.js'
import { dims, type OpenCollective, type Site, size } from './site.js'

export const collective = (instr: Collective, s: Site): void => {
  const [name] = instr.outs
  if (s.open.has(name)) throw new Error(`internal: ${name} already awaits a collective`)
  const joined = s.join(instr)
  const { list } = s
  const tensors = s.landing(instr)
  if (tensors) layOwn(tensors, joined[0], s)
  for (const one of joined) {
    const command = list.write('start', { sync: 0, me: one.me, members: one.members.length, collective: 0 })
    one.name(wordsAt(list, command))
  }
  s.open.set(name, { instr, joined })
  const { copier } = s
  if (instr.kind !== 'move' || !copier) return
  copier.origin = list.origin
  for (const [i, pair] of pairsOf(instr).entries()) meet(instr, pair, joined[i], { ...s, list: copier })
}

/** Elements before `dim`, and from it on. */
function around(all: readonly Dim[], dim: string | undefined): { outer: number; inner: number } {
  const at = all.findIndex(({ name }) => name === dim)
  return { outer: elementsOf(all.slice(0, at)), inner: elementsOf(all.slice(at)) }
}

const order = (s: Site, instr: Collective, pair: Pair): void => {
  const [from, to] = [dims(s, pair.in), dims(s, pair.out)].map(all => all.map(({ name }) => name).join(' '))
  if (from !== to) refuse(`${instr.kind} from [${from}] to [${to}] would have to transpose`)
}

/** The words every wait has; those that others must fill in are 0. */
interface Meet {
  readonly sync: number
  readonly me: number
  readonly members: number
  readonly collective: number
  readonly x: readonly number[]
  readonly out: readonly number[]
}

/** 0: members' parts follow each other. Else so many members in a row share what a rank of the zigzag would hold. */
const zigzag = ({ group, dim }: Extract<Collective, { kind: 'all-gather' | 'reduce-scatter' }>, s: Site): number =>
  s.isZigzag(group.axes, dim) ? s.ranksAlong(s.behindZigzag(group.axes)) : 0

type Pair = ReturnType<typeof pairsOf>[number]

type Waits = {
  readonly [K in Collective['kind']]: (
    instr: Extract<Collective, { kind: K }> & Pair,
    s: Site,
    meet: Meet,
  ) => [start: number, operands: number]
}

/** Each gives the word its command starts at, and the first word of the operands, which follow the named ones. */
const waits: Waits = {
  'all-reduce'(instr, s, meet) {
    const [combine, dtype] = [combineCode(instr.combine), codeOf(s.buffer(instr.in).dtype)]
    return [
      s.list.write('waitAllReduce', { ...meet, n: size(s, instr.in), combine, dtype }),
      firstOperand('waitAllReduce'),
    ]
  },
  'all-gather'(instr, s, meet) {
    const { outer, inner } = around(dims(s, instr.in), instr.dim)
    const fields = { ...meet, outer, innerBytes: inner * bytesPer[s.buffer(instr.in).dtype], zigzag: zigzag(instr, s) }
    return [s.list.write('waitAllGather', fields), firstOperand('waitAllGather')]
  },
  'reduce-scatter'(instr, s, meet) {
    const fields = {
      ...{ ...meet, ...around(dims(s, instr.out), instr.dim), zigzag: zigzag(instr, s), combine: combineCode('sum') },
    }
    const dtype = codeOf(s.buffer(instr.in).dtype)
    return [s.list.write('waitReduceScatter', { ...fields, dtype }), firstOperand('waitReduceScatter')]
  },
  'all-to-all'(instr, s, meet) {
    const piece = dims(s, instr.out).map(dim =>
      dim.name === instr.from ? { ...dim, size: dim.size / meet.members } : dim,
    )
    const [cut, lay] = [instr.to, instr.from].map(name => piece.findIndex(dim => dim.name === name))
    const [one, two] = [Math.min(cut, lay), Math.max(cut, lay)]
    const between = (from: number, to: number) => elementsOf(piece.slice(from, to))
    const fields = {
      ...{ outer: between(0, one), first: piece[one].size, middle: between(one + 1, two), second: piece[two].size },
      innerBytes: elementsOf(piece.slice(two + 1)) * bytesPer[s.buffer(instr.in).dtype],
      cutFirst: cut < lay ? 1 : 0,
    }
    return [s.list.write('waitAllToAll', { ...meet, ...fields }), firstOperand('waitAllToAll')]
  },
  shift(instr, s, meet) {
    const bytes = size(s, instr.in) * bytesPer[s.buffer(instr.in).dtype]
    const by = ((instr.by % meet.members) + meet.members) % meet.members
    return [s.list.write('waitShift', { ...meet, bytes, by }), firstOperand('waitShift')]
  },
  /** A shift by nobody, unless it goes to a file, or comes from one. */
  move(instr, s, meet) {
    const bytes = size(s, instr.in) * bytesPer[s.buffer(instr.in).dtype]
    const [from, to] = [s.lying(instr.in), s.lying(instr.out)]
    if (from.space === 'disk' || to.space === 'disk') {
      if (!(from.space === 'disk' ? from : to).isWhole) refuse('on a disk only whole frames are read and written')
      const { number: file, direct } = s.file ?? refuse('its rank has no file')
      const words = { bytes, piece: diskPiece, file, writes: to.space === 'disk' ? 1 : 0, direct: direct ? 1 : 0 }
      return [s.list.write('waitDisk', { ...meet, ...words }), firstOperand('waitDisk')]
    }
    return [s.list.write('waitShift', { ...meet, bytes, by: 0 }), firstOperand('waitShift')]
  },
  'all-dispatch'(instr, s, meet) {
    const { rows, columns, chosen, choices } = movesOf(instr, s)
    const places = s.once(instr.ins, () => placesOf(instr, s))
    const fields = { ...meet, rows, columns, chosen, choices, ...places, routes: meet.x, none: meet.x }
    return [s.list.write('waitAllDispatch', fields), wordOf('waitAllDispatch', 'chunks') + 1 + places.placesLength]
  },
  'all-combine'(instr, s, meet) {
    const { tokens, columns, repeats, rows } = movesOf(instr, s)
    const fields = { ...meet, tokens, columns, repeats, room: rows, routes: meet.x, none: meet.x }
    return [s.list.write('waitAllCombine', fields), firstOperand('waitAllCombine')]
  },
}

/** Bytes that are read or written at once: whole pages. */
export const diskPiece = 2 ** 20

/** Within a command, the first of the words that list operands. */
const firstOperand = (name: CommandName): number => 2 + (commands[name] as readonly string[]).indexOf('...x')

export function wait({ on }: InstrOf<'wait'>, s: Site): void {
  const open = s.open.get(on)
  if (!open) throw new Error(`internal: no collective that writes ${on} has started`)
  s.open.delete(on)
  finishCollective(open, s)
}

export function finishCollective({ instr, joined }: OpenCollective, s: Site): void {
  const tensors = s.landing(instr)
  if (tensors) land(tensors, joined[0], s)
  else if (meetsOnce(instr)) finishAll(instr, joined[0], s)
  else
    for (const [i, pair] of pairsOf(instr).entries()) {
      meet(instr, pair, joined[i], s)
      joined[i].close()
    }
}

/** Whether one collective does all pairs: sums of several tensors, and whatever works on lines. */
export const meetsOnce = (instr: Collective): boolean =>
  isFlat(instr) || (instr.kind === 'all-reduce' && instr.ins.length > 1)

function finishAll(instr: Collective, joined: RankCollective, s: Site): void {
  const members = joined.members.length
  // Parts that are gathered are bytes, whatever they are of.
  const copies = instr.kind === 'all-gather'
  const tensors = pairsOf(instr).flatMap(({ in: x, out }) => {
    const width = copies ? bytesPer[s.buffer(x).dtype] : 1
    const [less, whole] = [size(s, x), size(s, out)].map(n => n * width).sort((a, b) => a - b)
    return [partOf(instr, less, members), whole, ...new Array(2 * members).fill(0)]
  })
  const start = s.list.write('waitSeveral', {
    ...{ sync: 0, me: joined.me, members, collective: 0, how: severalKinds.indexOf(instr.kind as SeveralKind) }, // all-to-all is never among them,
    combine: combineCode(instr.kind === 'all-reduce' ? instr.combine : 'sum'),
    ...{ dtype: codeOf(copies ? 'i8' : s.buffer(instr.ins[0]).dtype), pairs: instr.ins.length, tensors },
  })
  s.list.waitsFor(joined.members)
  const operands = { list: s.list, word: start + wordOf('waitSeveral', 'pairs') + 3, stride: 2 + 2 * members }
  joined.name({ ...wordsAt(s.list, start), operands })
  joined.close()
}

/** What one member sums up of a tensor that all get ends on cache lines: nobody writes another's. */
const partOf = (instr: Collective, least: number, members: number): number =>
  instr.kind === 'all-reduce' ? roundUp(Math.ceil(least / members), 32) : least

function meet(instr: Collective, pair: Pair, joined: RankCollective, s: Site): void {
  if (!isRouted(instr)) order(s, instr, pair)
  const none = joined.members.map(() => 0)
  const words: Meet = { sync: 0, me: joined.me, members: none.length, collective: 0, x: none, out: none }
  const rule = waits[instr.kind] as (i: Collective & Pair, s: Site, m: Meet) => [number, number] // total
  const [start, operands] = rule({ ...instr, ...pair }, s, words)
  s.list.waitsFor(joined.members)
  joined.name({
    ...wordsAt(s.list, start),
    operands: { list: s.list, word: start + operands, stride: 2 * none.length },
  })
}
