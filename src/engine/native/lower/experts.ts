/** From ops of experts to the commands that do them. Tokens come first in every tensor, then candidates or choices; rows first. */
import {
  coordinatesAlong,
  type Dim,
  elementsOf,
  gcd,
  partAlong,
  roomOrders,
  splitOf,
  squaredLimit,
} from '../../../base/index.js'
import { has, sizeIn } from '../../../geometry/index.js'
import type { InstrOf, Ref } from '../../../ir/index.js'
import { orderIn } from './attention.js'
import type { MemoryMap } from './map.js'
import { backwards, isPrefix, partRuns, refuse, rowsBy, same, showDims } from './shapes.js'
import { alike, copyRuns, dims, type Site, size, storedAlike } from './site.js'

const last = (s: Site, ref: Ref): readonly Dim[] => dims(s, ref).slice(-1)

/** Tokens and how many numbers each has, which come last and are named so. */
function tokens(s: Site, ref: Ref, along: 'candidate' | 'choice'): { rows: number; columns: number } {
  if (last(s, ref)[0]?.name !== along) refuse(`${showDims(dims(s, ref))} does not end in ${along}`)
  return rowsBy(dims(s, ref), last(s, ref), 'routing')
}

/** Scores, and choices of the same tokens. */
function choosing(s: Site, scores: Ref, choice: Ref) {
  const [{ rows, columns }, chosen] = [tokens(s, scores, 'candidate'), tokens(s, choice, 'choice')]
  if (!same(dims(s, scores).slice(0, -1), dims(s, choice).slice(0, -1)))
    refuse(`${showDims(dims(s, scores))} and ${showDims(dims(s, choice))} are not of the same tokens`)
  return { rows, columns, chosen: chosen.columns }
}

/** Tokens in groups: those that share what the counts have beside candidates. */
function counted(s: Site, scores: Ref, counts: Ref) {
  const [{ rows, columns }, groups] = [
    tokens(s, scores, 'candidate'),
    size(s, counts) / tokens(s, counts, 'candidate').columns,
  ]
  if (!isPrefix(dims(s, counts).slice(0, -1), dims(s, scores).slice(0, -1)))
    refuse(`counts ${showDims(dims(s, counts))} are not of runs of ${showDims(dims(s, scores))}`)
  return { groups, rows: rows / groups, columns }
}

const one = (s: Site, loss: Ref): number =>
  size(s, loss) === 1 ? s.at(loss) : refuse(`a loss of ${showDims(dims(s, loss))} is not one number`)

/** Rows of numbers, and the tokens they come from. */
function routed(s: Site, rows: Ref, of: Ref, to: Ref) {
  const [row, ...columns] = dims(s, rows)
  const own = dims(s, of).filter(({ name }) => !has(columns, name))
  if (row.name !== 'row' || !same([...own, ...columns], dims(s, of)))
    refuse(`rows ${showDims(dims(s, rows))} do not fit tokens ${showDims(dims(s, of))}`)
  const chosen = sizeIn(dims(s, to), 'choice') ?? 1
  const apart = has(own, 'choice')
  return {
    ...{ rows: row.size, columns: elementsOf(columns), tokens: elementsOf(own), chosen },
    ...{ choices: apart ? chosen : 1, repeats: apart ? 1 : chosen },
  }
}

function expertWeights(s: Site, w: Ref) {
  const [expert, from, to] = dims(s, w)
  if (expert.name !== 'expert' || dims(s, w).length !== 3) refuse(`weights of experts are ${showDims(dims(s, w))}`)
  return { experts: expert.size, from, to }
}

export const expertRules = {
  sigmoid: ({ ins: [x], outs: [y] }: InstrOf<'sigmoid'>, s: Site) =>
    void s.list.write('sigmoid', { y: s.at(y), x: s.at(x), n: alike(s, [y, x]) }),
  sigmoidGrad: ({ ins: [dy, y], outs: [dx] }: InstrOf<'sigmoidGrad'>, s: Site) =>
    void s.list.write('sigmoidGrad', { dx: s.at(dx), dy: s.at(dy), y: s.at(y), n: alike(s, [dx, dy, y]) }),
  scores({ ins: [x], outs: [out], by }: InstrOf<'scores'>, s: Site) {
    alike(s, [x, out])
    const sigmoid = Number(by === 'sigmoid')
    s.list.write('scores', { out: s.at(out), x: s.at(x), ...tokens(s, x, 'candidate'), sigmoid })
  },
  scoresGrad({ ins: [dy, y], outs: [dx], by }: InstrOf<'scoresGrad'>, s: Site) {
    alike(s, [dx, dy, y])
    const at = { dx: s.at(dx), dy: s.at(dy), y: s.at(y) }
    s.list.write('scoresGrad', { ...at, ...tokens(s, y, 'candidate'), sigmoid: Number(by === 'sigmoid') })
  },
  topK({ ins: [scores, bias], outs: [choice], groups }: InstrOf<'topK'>, s: Site) {
    const at = { choice: s.at(choice), scores: s.at(scores), bias: bias === undefined ? 0 : s.at(bias) }
    const limits = groups ?? { groups: 1, chosenGroups: 1 }
    s.list.write('topK', { ...at, ...choosing(s, scores, choice), ...limits })
  },
  chosen({ ins: [scores, choice], outs: [weight], normalise, scale }: InstrOf<'chosen'>, s: Site) {
    alike(s, [choice, weight])
    const at = { weight: s.at(weight), scores: s.at(scores), choice: s.at(choice) }
    s.list.write('chosen', { ...at, ...choosing(s, scores, choice), normalise: Number(normalise), scale })
  },
  chosenGrad({ ins, outs: [dscores], normalise, scale }: InstrOf<'chosenGrad'>, s: Site) {
    const [dweight, scores, choice] = ins
    alike(s, [choice, dweight])
    alike(s, [scores, dscores])
    const at = { dscores: s.at(dscores), dweight: s.at(dweight), scores: s.at(scores), choice: s.at(choice) }
    s.list.write('chosenGrad', { ...at, ...choosing(s, scores, choice), normalise: Number(normalise), scale })
  },
  assign({ ins: [scores, choice, order], outs: [kept], ...op }: InstrOf<'assign'>, s: Site) {
    alike(s, [choice, kept])
    const at = { kept: s.at(kept), scores: s.at(scores), choice: s.at(choice) }
    const lying = { order: orderIn(s, order, choice), slots: sizeIn(dims(s, choice), 'seq') ?? 1 }
    const how = { room: op.room, tokens: op.tokens, by: roomOrders.indexOf(op.order) }
    s.list.write('assign', { ...at, ...lying, ...choosing(s, scores, choice), ...how })
  },
  rowsOf({ ins: [choice], outs: [to, from, counts] }: InstrOf<'rowsOf'>, s: Site) {
    const at = { to: s.at(to), from: s.at(from), counts: s.at(counts), choice: s.at(choice) }
    const [experts, own] = [s.shape(counts).whole[0].size, size(s, counts)]
    const first = s.parts(counts)[0].origin
    s.list.write('rowsOf', { ...at, n: alike(s, [choice, to]), experts, own, first, room: size(s, from) })
  },
  dispatch({ ins: [x, to, from], outs: [out] }: InstrOf<'dispatch'>, s: Site) {
    const { rows, columns, repeats } = routed(s, out, x, to)
    storedAlike(s, [x, out])
    s.list.write('dispatchRows', { out: s.at(out), x: s.at(x), from: s.at(from), rows, columns, repeats })
  },
  combine({ ins: [x, to], outs: [out] }: InstrOf<'combine'>, s: Site) {
    const { tokens, columns, repeats } = routed(s, x, out, to)
    s.list.write('combineRows', { out: s.at(out), x: s.at(x), to: s.at(to), tokens, columns, repeats })
  },
  expertContract({ ins: [rows, counts, w], outs: [out] }: InstrOf<'expertContract'>, s: Site) {
    const { experts, from, to } = expertWeights(s, w)
    const [[row, k], [, n]] = [dims(s, rows), dims(s, out)]
    const transposed = k.name === to.name
    if (row.name !== 'row' || (transposed ? n : k).name !== from.name)
      refuse(
        `experts ${showDims(dims(s, w))} do not multiply ${showDims(dims(s, rows))} into ${showDims(dims(s, out))}`,
      )
    const at = { out: s.at(out), rows: s.at(rows), counts: s.at(counts), w: s.at(w) }
    const sizes = { experts, room: row.size, n: n.size, k: k.size, transW: Number(transposed) }
    s.list.write('expertContract', { ...at, ...sizes })
  },
  expertWeightGrad({ ins: [rows, drows, counts], outs: [dw] }: InstrOf<'expertWeightGrad'>, s: Site) {
    const { experts, from, to } = expertWeights(s, dw)
    const names = [rows, drows].map(ref => dims(s, ref)[1].name)
    if (names[0] !== from.name || names[1] !== to.name) refuse(`weights ${showDims(dims(s, dw))} are transposed`)
    const at = { dw: s.at(dw), rows: s.at(rows), drows: s.at(drows), counts: s.at(counts) }
    s.list.write('expertWeightGrad', { ...at, experts, m: from.size, n: to.size })
  },
  weightedSwiglu({ ins: [gate, up, weight], outs: [y] }: InstrOf<'weightedSwiglu'>, s: Site) {
    alike(s, [gate, up, y])
    const at = { y: s.at(y), gate: s.at(gate), up: s.at(up), weight: s.at(weight) }
    s.list.write('weightedSwiglu', { ...at, ...weighed(s, gate, weight) })
  },
  weightedSwigluGrad({ ins, outs }: InstrOf<'weightedSwigluGrad'>, s: Site) {
    const [dy, gate, up, weight] = ins
    const [dgate, dup, dweight] = outs.map(ref => s.at(ref))
    alike(s, [gate, up, dy, outs[0], outs[1]])
    const at = { dgate, dup, dweight, dy: s.at(dy), gate: s.at(gate), up: s.at(up), weight: s.at(weight) }
    s.list.write('weightedSwigluGrad', { ...at, ...weighed(s, gate, weight) })
  },
  countChoices({ ins: [choice], outs: [counts] }: InstrOf<'countChoices'>, s: Site) {
    const { rows, columns } = tokens(s, counts, 'candidate')
    if (rows !== 1) refuse(`choices are counted over all tokens, not into ${showDims(dims(s, counts))}`)
    s.list.write('countChoices', { counts: s.at(counts), choice: s.at(choice), n: size(s, choice), columns })
  },
  countTop({ ins: [scores], outs: [counts], chosen }: InstrOf<'countTop'>, s: Site) {
    s.list.write('countTop', { counts: s.at(counts), scores: s.at(scores), ...counted(s, scores, counts), chosen })
  },
  balanceLoss({ ins: [scores, counts], outs: [loss], by, shares }: InstrOf<'balanceLoss'>, s: Site) {
    const at = { loss: one(s, loss), scores: s.at(scores), counts: s.at(counts) }
    s.list.write('balanceLoss', { ...at, ...counted(s, scores, counts), by, shares: Number(shares) })
  },
  balanceLossGrad({ ins: [scores, counts, scale], outs: [dscores], by, shares }: InstrOf<'balanceLossGrad'>, s: Site) {
    alike(s, [scores, dscores])
    const at = { dscores: s.at(dscores), scores: s.at(scores), counts: s.at(counts), scale: scaleAt(s, scale) }
    s.list.write('balanceLossGrad', { ...at, ...counted(s, scores, counts), by, shares: Number(shares) })
  },
  zLoss: ({ ins: [logits], outs: [loss], by }: InstrOf<'zLoss'>, s: Site) =>
    void s.list.write('zLoss', { loss: one(s, loss), logits: s.at(logits), ...tokens(s, logits, 'candidate'), by }),
  zLossGrad({ ins: [logits, scale], outs: [dlogits], by }: InstrOf<'zLossGrad'>, s: Site) {
    alike(s, [logits, dlogits])
    const at = { dlogits: s.at(dlogits), logits: s.at(logits), scale: scaleAt(s, scale) }
    s.list.write('zLossGrad', { ...at, ...tokens(s, logits, 'candidate'), by })
  },
  balance({ ins: [counts, norm], outs: [bias], rate, mean, ...guard }: InstrOf<'balance'>, s: Site) {
    const at = { bias: s.at(bias), counts: s.at(counts), normSquared: s.at(norm) }
    s.list.write('balance', { ...at, n: alike(s, [bias, counts]), rate, mean, limit: squaredLimit(guard) })
  },
}

/** What gradients are multiplied with; 0: nothing. */
const scaleAt = (s: Site, scale: Ref | undefined): number => (scale === undefined ? 0 : s.at(scale))

/** A weight for each row. */
function weighed(s: Site, gate: Ref, weight: Ref): { rows: number; columns: number } {
  const rows = size(s, weight)
  if (!isPrefix(dims(s, weight), dims(s, gate))) refuse(`${showDims(dims(s, gate))} has no weight for each row`)
  return { rows, columns: size(s, gate) / rows }
}

type Moves = InstrOf<'all-dispatch' | 'all-combine'>

/** What a collective that moves rows is told besides who meets and where. */
export function movesOf({ kind, ins, outs }: Moves, s: Site) {
  return kind === 'all-dispatch' ? routed(s, outs[0], ins[0], ins[1]) : routed(s, ins[0], outs[0], ins[1])
}

/** Which of the routes says where the rows of a result come from. */
export const routesOf = ({ kind, ins }: Moves): Ref => (kind === 'all-dispatch' ? ins[2] : ins[1])

/** Who has which tokens: by parts of the batches, and chunks of the sequence so short that each is in one place. */
export function placesOf({ ins: [x], group: { axes } }: Moves, s: Site) {
  const { layout } = s.buffer(x)
  const own = ['batch', 'seq'].map(name => dims(s, x).find(dim => dim.name === name) ?? { name, size: 1 })
  const along = own.map(({ name }) => splitOf(layout, name).filter(axis => axes.includes(axis)))
  const members = Array.from({ length: s.ranksAlong(axes) }, (_, member) => {
    const at = coordinatesAlong(s.mesh, axes, member)
    const [batch, seq] = own.map((dim, i) => partAlong(s.mesh, along[i], dim, at))
    const later = { from: seq.origin + seq.until + seq.gap, start: seq.until, length: own[1].size - seq.until }
    const first = { from: seq.origin, start: 0, length: Math.min(seq.until, own[1].size) }
    return { part: batch.origin / own[0].size, runs: later.length > 0 ? [first, later] : [first] }
  })
  const chunk = members
    .flatMap(({ runs }) => runs)
    .reduce((n, { from, length }) => gcd(gcd(n, from), length), own[1].size)
  const wholeSeq = own[1].size * s.ranksAlong(along[1])
  const chunks = wholeSeq / chunk
  const places: number[] = new Array(2 * chunks * s.ranksAlong(along[0])).fill(0)
  for (const [member, { part, runs }] of members.entries())
    for (const { from, start, length } of runs)
      for (let at = 0; at < length; at += chunk)
        places.splice(2 * (part * chunks + (from + at) / chunk), 2, member, start + at)
  const sizes = { batch: own[0].size, seq: own[1].size, wholeSeq, chunk, chunks }
  return { ...sizes, placesLength: places.length, places }
}

/** Those who want to see choices get a copy, in the order of the global batch: from one of the ranks that have the same ones. */
export function keepChoices({ outs: [choice] }: InstrOf<'topK'>, s: Site, { choices }: MemoryMap): void {
  const place = choices.get(s.block)
  const split = Object.values(s.buffer(choice).layout.splits).flat()
  const alone = s.mesh.axes.flatMap(({ name }) => (name === 'pp' || split.includes(name) ? [] : [name]))
  if (!place || !s.isFirst(alone)) return
  const runs = partRuns(dims(s, choice), s.parts(choice), place.dims).map(backwards)
  copyRuns(s, runs, { dtype: 'i32', x: s.at(choice), out: place.offset })
}
