/** Cases of the kernels that route tokens to experts and work on their rows. Scores are far enough apart to be chosen alike. */
import { roomOrders } from '../src/base/index.js'
import { shuffled } from './kernel-attention.js'
import { type draw, type KernelCase, largest, type Make, orNone, reference } from './kernel-draw.js'
import type { Tensor } from './tiny.js'

type Draw = ReturnType<typeof draw>
type Sized = Record<string, number>

const ids = (x: Tensor) => Int32Array.from(x.values)

/** Tokens with candidates, of which so many are chosen. */
function routing({ pick }: Draw) {
  const [batch, seq, candidate] = [pick([1, 2, 3]), pick([1, 4, 12]), pick([2, 4, 8, 12, 40])]
  return { batch, seq, candidate, choice: pick([1, 2, candidate].filter(n => n <= candidate)) }
}

const tokens = ({ batch, seq }: Sized) => ({ rows: batch * seq })

/** Scores as a router gives them, in f32. */
function scored(d: Draw, { batch, seq, candidate }: Sized, by: 'softmax' | 'sigmoid' = 'softmax') {
  const shape = { batch, seq, candidate }
  const values = Float32Array.from(reference({ kind: 'scores', by }, [d.tensor(shape, 2)], shape)[0])
  return { ...d.tensor(shape), values }
}

/** All tokens as the first, but for a few units in the last bits that count, or less. */
function alike(scores: Tensor, { candidate }: Sized, { pick }: Draw): Tensor {
  const near = () => 1 + pick([-3, -1, 0, 1, 2]) * pick([2 ** -23, 2 ** -18, 2 ** -17])
  return { ...scores, values: Float32Array.from(scores.values, (_, i) => scores.values[i % candidate] * near()) }
}

function chosenOf(scores: Tensor, { batch, seq, choice }: Sized): Tensor {
  const shape = { batch, seq, choice }
  const dims = Object.entries(shape).map(([name, size]) => ({ name, size }))
  return { dims, values: Int32Array.from(reference({ kind: 'topK' }, [scores], shape)[0]) }
}

const scores: Make = d => {
  const { batch, seq, candidate } = routing(d)
  const [shape, by] = [{ batch, seq, candidate }, d.pick(['softmax', 'sigmoid'] as const)]
  const x = d.tensor(shape, 3)
  const [out] = reference({ kind: 'scores', by }, [x], shape)
  const words = { ...tokens(shape), columns: candidate, sigmoid: Number(by === 'sigmoid') }
  return { command: 'scores', ins: { x: x.values }, words, expected: { out }, magnitude: 1e-6, bound: 1e-6 }
}

const scoresGrad: Make = d => {
  const sizes = routing(d)
  const by = d.pick(['softmax', 'sigmoid'] as const)
  const [y, dy] = [scored(d, sizes, by), d.tensor({ batch: sizes.batch, seq: sizes.seq, candidate: sizes.candidate })]
  const [dx] = reference({ kind: 'scoresGrad', by }, [dy, y], {
    batch: sizes.batch,
    seq: sizes.seq,
    candidate: sizes.candidate,
  })
  const words = { ...tokens(sizes), columns: sizes.candidate, sigmoid: Number(by === 'sigmoid') }
  return {
    command: 'scoresGrad',
    ins: { dy: dy.values, y: y.values },
    words,
    expected: { dx },
    magnitude: 3,
    bound: 1e-6,
  }
}

const topK: Make = d => {
  const sizes = routing(d)
  const { candidate, choice } = sizes
  const given = scored(d, sizes)
  const bias = d.chance(0.5) ? d.tensor({ candidate }, 0.1) : undefined
  const groups =
    candidate % 4 === 0 && choice === 2
      ? d.pick([undefined, { groups: 4, chosenGroups: 2 }, { groups: 2, chosenGroups: 1 }])
      : undefined
  const op = { kind: 'topK', ...(groups && { groups }) } as const
  const [out] = reference(op, [given, ...(bias ? [bias] : [])], { batch: sizes.batch, seq: sizes.seq, choice })
  const words = { ...tokens(sizes), columns: candidate, chosen: choice, ...(groups ?? { groups: 1, chosenGroups: 1 }) }
  return {
    ...{ command: 'topK', ins: { scores: given.values, ...(bias && { bias: bias.values }) }, bound: 0 },
    ...{ words: { ...words, ...(bias ? {} : { bias: 0 }) }, expected: { choice: out }, integers: ['choice'] },
  }
}

/** Choices of which some were not kept. */
function someKept(choice: Tensor, { chance }: Draw): Tensor {
  return { ...choice, values: Int32Array.from(choice.values, expert => (chance(0.2) ? -1 : expert)) }
}

function weighing(d: Draw) {
  const sizes = routing(d)
  const given = scored(d, sizes, d.pick(['softmax', 'sigmoid'] as const))
  const choice = someKept(chosenOf(given, sizes), d)
  const how = { normalise: d.chance(0.5), scale: d.pick([1, 2.5]) }
  const words = { ...tokens(sizes), columns: sizes.candidate, chosen: sizes.choice, ...how, normalise: +how.normalise }
  return { sizes, given, choice, how, words }
}

const chosen: Make = d => {
  const { sizes, given, choice, how, words } = weighing(d)
  const [weight] = reference({ kind: 'chosen', ...how }, [given, choice], {
    batch: sizes.batch,
    seq: sizes.seq,
    choice: sizes.choice,
  })
  return {
    command: 'chosen',
    ins: { scores: given.values },
    ids: { choice: ids(choice) },
    words,
    expected: { weight },
    bound: 1e-6,
  }
}

const chosenGrad: Make = d => {
  const { sizes, given, choice, how, words } = weighing(d)
  const { batch, seq, candidate } = sizes
  const dweight = d.tensor({ batch, seq, choice: sizes.choice })
  const [dscores] = reference({ kind: 'chosenGrad', ...how }, [dweight, given, choice], { batch, seq, candidate })
  const magnitude = Math.max(1, largest(dscores))
  return {
    ...{ command: 'chosenGrad', ins: { dweight: dweight.values, scores: given.values }, ids: { choice: ids(choice) } },
    ...{ words, expected: { dscores }, magnitude, bound: 1e-6 },
  }
}

const assign: Make = d => {
  const sizes = routing(d)
  const [apart, near] = [scored(d, sizes), d.chance(0.5)]
  const given = near ? alike(apart, sizes, d) : apart
  const choice = chosenOf(given, sizes)
  const [room, order] = [d.pick([1, 2, 5]), near ? 'probability' : d.pick(roomOrders)]
  const run = d.pick([1, 2, 4].filter(n => sizes.seq % n === 0))
  const op = { kind: 'assign', room, tokens: sizes.seq / run, order } as const
  const lying = d.chance(0.5) ? [shuffled(d, sizes.batch, sizes.seq)] : []
  const { batch, seq, candidate: columns, choice: chosen } = sizes
  const [kept] = reference(op, [given, choice, ...lying], { batch, seq, choice: chosen })
  const by = roomOrders.indexOf(order)
  const { ids: orders, words } = orNone(['order'], lying, { ...tokens(sizes), columns, chosen, room, slots: seq, by })
  return {
    ...{ command: 'assign', ins: { scores: given.values }, ids: { choice: ids(choice), ...orders }, bound: 0 },
    ...{ words: { ...words, tokens: seq / run }, expected: { kept }, integers: ['kept'] },
  }
}

/** Choices and their routes, where this rank has all experts or half of them. */
function routes(d: Draw) {
  const sizes = routing(d)
  const choice = someKept(chosenOf(scored(d, sizes), sizes), d)
  const { batch, seq, candidate } = sizes
  const halves = d.pick([1, 2].filter(n => candidate % n === 0))
  const [own, first] = [candidate / halves, halves === 2 ? d.pick([0, candidate / 2]) : 0]
  const row = batch * seq * sizes.choice + d.pick([0, 3])
  const counts = {
    dims: [{ name: 'expert', size: own }],
    values: [],
    origin: { expert: first },
    whole: { expert: candidate },
  }
  const perChoice = { batch, seq, choice: sizes.choice }
  const [to, from, made] = reference({ kind: 'rowsOf', guarded: false }, [choice], perChoice, { row }, counts)
  const named = (given: Sized, values: ArrayLike<number>): Tensor => ({
    dims: Object.entries(given).map(([name, size]) => ({ name, size })),
    values: Int32Array.from(values),
  })
  const tables = { to: named(perChoice, to), from: named({ row }, from), counts: named({ expert: own }, made) }
  return { sizes, choice, own, first, row, tables }
}

const rowsOf: Make = d => {
  const { sizes, choice, own, first, row, tables } = routes(d)
  const n = sizes.batch * sizes.seq * sizes.choice
  const expected = { to: tables.to.values, from: tables.from.values, counts: tables.counts.values }
  const words = { n, experts: sizes.candidate, own, first, room: row }
  return {
    ...{ command: 'rowsOf', ins: {}, ids: { choice: ids(choice) }, words, expected, bound: 0 },
    integers: ['to', 'from', 'counts'],
  }
}

/** Routes of a rank that has all experts. */
function ownRoutes(d: Draw): ReturnType<typeof routes> {
  for (;;) {
    const made = routes(d)
    if (made.own === made.sizes.candidate) return made
  }
}

const dispatchRows: Make = d => {
  const { sizes, row, tables } = ownRoutes(d)
  const { batch, seq, choice } = sizes
  const [apart, embed] = [d.chance(0.3), d.pick([1, 5, 16, 40])]
  const x = d.tensor(apart ? { batch, seq, choice } : { batch, seq, embed })
  const shape: Sized = apart ? { row } : { row, embed }
  const [out] = reference({ kind: 'dispatch' }, [x, tables.to, tables.from, tables.counts], shape)
  const words = { rows: row, columns: apart ? 1 : embed, repeats: apart ? 1 : choice }
  return {
    command: 'dispatchRows',
    ins: { x: x.values },
    ids: { from: ids(tables.from) },
    words,
    expected: { out },
    bound: 0,
  }
}

const combineRows: Make = d => {
  const { sizes, row, tables } = ownRoutes(d)
  const { batch, seq, choice } = sizes
  const [apart, embed] = [d.chance(0.3), d.pick([1, 5, 16, 40])]
  const x = d.tensor(apart ? { row } : { row, embed })
  const shape: Sized = apart ? { batch, seq, choice } : { batch, seq, embed }
  const [out] = reference({ kind: 'combine' }, [x, tables.to, tables.from, tables.counts], shape)
  const words = { tokens: batch * seq * (apart ? choice : 1), columns: apart ? 1 : embed, repeats: apart ? 1 : choice }
  const given = { ins: { x: x.values }, ids: { to: ids(tables.to) } }
  return { command: 'combineRows', ...given, words, expected: { out }, magnitude: choice, bound: 3e-7 }
}

/** Rows of experts, of which some have none, and room to spare. */
function worked({ pick, int, tensor }: Draw) {
  const counts = Array.from({ length: pick([1, 2, 4]) }, () => pick([0, 1, int(7), int(40)]))
  const row = counts.reduce((a, b) => a + b, 0) + pick([0, 5])
  const [embed, expertFfn] = [pick([1, 6, 16, 33]), pick([1, 8, 20])]
  const expert = counts.length
  const table: Tensor = { dims: [{ name: 'expert', size: expert }], values: Int32Array.from(counts) }
  return { row: Math.max(1, row), embed, expertFfn, expert, counts: table, tensor }
}

const expertContract: Make = d => {
  const { row, embed, expertFfn, expert, counts, tensor } = worked(d)
  const back = d.chance(0.5)
  const [rows, w] = [tensor(back ? { row, expertFfn } : { row, embed }), tensor({ expert, embed, expertFfn })]
  const [out] = reference({ kind: 'expertContract' }, [rows, counts, w], back ? { row, embed } : { row, expertFfn })
  const [n, k] = back ? [embed, expertFfn] : [expertFfn, embed]
  const words = { experts: expert, room: row, n, k, transW: +back }
  const given = { ins: { rows: rows.values, w: w.values }, ids: { counts: ids(counts) } }
  return { command: 'expertContract', ...given, words, expected: { out }, magnitude: 4 * Math.sqrt(k), bound: 1e-6 }
}

const expertWeightGrad: Make = d => {
  const { row, embed, expertFfn, expert, counts, tensor } = worked(d)
  const [rows, drows] = [tensor({ row, embed }), tensor({ row, expertFfn })]
  const [dw] = reference({ kind: 'expertWeightGrad' }, [rows, drows, counts], { expert, embed, expertFfn })
  const words = { experts: expert, m: embed, n: expertFfn }
  const given = { ins: { rows: rows.values, drows: drows.values }, ids: { counts: ids(counts) } }
  return { command: 'expertWeightGrad', ...given, words, expected: { dw }, magnitude: 4 * Math.sqrt(row), bound: 1e-6 }
}

function gated({ tensor, pick, size }: Draw) {
  const [row, f] = [pick([1, 3, 17]), Math.max(1, size())]
  const [gate, up] = [tensor({ row, f }), tensor({ row, f })]
  return { row, f, gate, up, weight: tensor({ row }), words: { rows: row, columns: f } }
}

const weightedSwiglu: Make = d => {
  const { row, f, gate, up, weight, words } = gated(d)
  const [y] = reference({ kind: 'weightedSwiglu' }, [gate, up, weight], { row, f })
  const ins = { gate: gate.values, up: up.values, weight: weight.values }
  return { command: 'weightedSwiglu', ins, words, expected: { y }, magnitude: 1e-6, bound: 1e-6 }
}

const weightedSwigluGrad: Make = d => {
  const { row, f, gate, up, weight, words } = gated(d)
  const dy = d.tensor({ row, f })
  const shapes = [{ row, f }, { row, f }, { row }]
  const [dgate, dup, dweight] = reference({ kind: 'weightedSwigluGrad' }, [dy, gate, up, weight], ...shapes)
  const ins = { dy: dy.values, gate: gate.values, up: up.values, weight: weight.values }
  const magnitude = { dgate: 1, dup: 1, dweight: 4 * Math.sqrt(f) }
  return { command: 'weightedSwigluGrad', ins, words, expected: { dgate, dup, dweight }, magnitude, bound: 2e-6 }
}

const countChoices: Make = d => {
  const sizes = routing(d)
  const choice = someKept(chosenOf(scored(d, sizes), sizes), d)
  const [counts] = reference({ kind: 'countChoices' }, [choice], { candidate: sizes.candidate })
  const words = { n: choice.values.length, columns: sizes.candidate }
  return { command: 'countChoices', ins: {}, ids: { choice: ids(choice) }, words, expected: { counts }, bound: 0 }
}

/** Scores and counts of each sequence, or of all tokens. */
function balancing(d: Draw) {
  const sizes = routing(d)
  const { batch, seq, candidate } = sizes
  const given = scored(d, sizes, d.pick(['softmax', 'sigmoid'] as const))
  const each = d.chance(0.5)
  const shape: Sized = each ? { batch, candidate } : { candidate }
  const words = { groups: each ? batch : 1, rows: each ? seq : batch * seq, columns: candidate }
  const [tops] = reference({ kind: 'countTop', chosen: sizes.choice }, [given], shape)
  const dims = Object.entries(shape).map(([name, size]) => ({ name, size }))
  const counts: Tensor = { dims, values: Float32Array.from(tops) }
  return { sizes, given, words, counts, how: { by: 0.3, shares: d.chance(0.5) } }
}

const countTop: Make = d => {
  const { sizes, given, words, counts } = balancing(d)
  const expected = { counts: counts.values }
  return {
    command: 'countTop',
    ins: { scores: given.values },
    words: { ...words, chosen: sizes.choice },
    expected,
    bound: 0,
  }
}

const balanceLoss: Make = d => {
  const { given, words, counts, how } = balancing(d)
  const [loss] = reference({ kind: 'balanceLoss', ...how }, [given, counts], {})
  const ins = { scores: given.values, counts: counts.values }
  return {
    command: 'balanceLoss',
    ins,
    words: { ...words, by: how.by, shares: +how.shares },
    expected: { loss },
    bound: 1e-6,
  }
}

const balanceLossGrad: Make = d => {
  const { sizes, given, words, counts, how } = balancing(d)
  const { batch, seq, candidate } = sizes
  const scale = d.pick([[], [{ dims: [], values: [64] }]])
  const [dscores] = reference({ kind: 'balanceLossGrad', ...how }, [given, counts, ...scale], { batch, seq, candidate })
  const magnitude = largest(counts.values) * (scale[0]?.values[0] ?? 1)
  const ins = { scores: given.values, counts: counts.values, ...(scale[0] ? { scale: scale[0].values } : {}) }
  const all = { ...words, by: how.by, shares: +how.shares, ...(scale[0] ? {} : { scale: 0 }) }
  return { command: 'balanceLossGrad', ins, words: all, expected: { dscores }, magnitude, bound: 1e-6 }
}

const zLoss =
  (command: 'zLoss' | 'zLossGrad'): Make =>
  d => {
    const { batch, seq, candidate } = routing(d)
    const logits = d.tensor({ batch, seq, candidate }, 3)
    const isLoss = command === 'zLoss'
    const scale: Tensor[] = isLoss ? [] : d.pick([[], [{ dims: [], values: [64] }]])
    const by = { kind: command, by: 0.2 }
    const [result] = reference(by, [logits, ...scale], isLoss ? {} : { batch, seq, candidate })
    const words = { rows: batch * seq, columns: candidate, by: 0.2, ...(isLoss || scale[0] ? {} : { scale: 0 }) }
    const expected: Record<string, ArrayLike<number>> = isLoss ? { loss: result } : { dlogits: result }
    const ins = { logits: logits.values, ...(scale[0] ? { scale: scale[0].values } : {}) }
    return { command, ins, words, expected, magnitude: scale[0] ? 64 : 1, bound: 1e-6 }
  }

const balance: Make = ({ tensor, pick, integers }) => {
  const candidate = pick([1, 8, 33])
  const [bias, counts] = [tensor({ candidate }, 0.1), integers({ candidate }, 0, 6)]
  const norm: Tensor = { dims: [], values: [pick([2, 2, Number.NaN])] }
  const [out] = reference({ kind: 'balance', rate: 0.001, mean: 3 }, [counts, norm], bias)
  const words = { n: candidate, rate: 0.001, mean: 3, limit: Number.POSITIVE_INFINITY }
  const ins = { counts: Float32Array.from(counts.values), normSquared: norm.values }
  return { command: 'balance', ins, initial: { bias: bias.values }, words, expected: { bias: out }, bound: 3e-7 }
}

const sigmoid: Make = ({ size, tensor }) => {
  const n = size()
  const x = tensor({ n }, 3)
  const [y] = reference({ kind: 'sigmoid' }, [x], { n })
  return { command: 'sigmoid', ins: { x: x.values }, words: { n }, expected: { y }, bound: 1e-6 }
}

const sigmoidGrad: Make = ({ size, tensor }) => {
  const n = size()
  const [dy, y] = [tensor({ n }), tensor({ n })]
  const [dx] = reference({ kind: 'sigmoidGrad' }, [dy, y], { n })
  return {
    command: 'sigmoidGrad',
    ins: { dy: dy.values, y: y.values },
    words: { n },
    expected: { dx },
    magnitude: 3,
    bound: 1e-6,
  }
}

const mulRows: Make = ({ tensor, pick, size }) => {
  const [rows, columns] = [pick([1, 7]), Math.max(1, size())]
  const [a, b] = [tensor({ rows, columns }), tensor({ rows })]
  const [out] = reference({ kind: 'mul' }, [a, b], { rows, columns })
  return {
    command: 'mulRows',
    ins: { a: a.values, b: b.values },
    words: { rows, columns },
    expected: { out },
    bound: 1e-7,
  }
}

export const expertCases = {
  ...{ mulRows, sigmoid, sigmoidGrad, scores, scoresGrad, topK, chosen, chosenGrad, assign, rowsOf, dispatchRows },
  ...{ combineRows, expertContract, expertWeightGrad, weightedSwiglu, weightedSwigluGrad, countChoices, countTop },
  ...{ balanceLoss, balanceLossGrad, zLoss: zLoss('zLoss'), zLossGrad: zLoss('zLossGrad'), balance },
} as const satisfies Partial<Record<KernelCase['command'], Make>>
