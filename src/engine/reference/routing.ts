/**
 * How tokens choose experts: a router scores all candidates, the best are chosen, and losses keep the load even.
 * Of equal scores the one of lower number is the higher, so that every plan chooses alike.
 */
import { type Dim, elementsOf, squaredLimit } from '../../base/index.js'
import { type Cells, offsets, type Place, type Shape, sizeIn, within, without } from '../../geometry/index.js'
import { aligned } from './elementwise.js'
import type { Kernel, Prepare } from './kernel.js'

const only = (dims: Shape['dims'], name: string) => dims.filter(dim => dim.name === name)

/** Tokens, and where each of their candidates (or choices) lies in a tensor that may have its dims in any order. */
function perToken({ dims }: Shape, along: string, tokens = without(dims, only(dims, along))) {
  return { tokens: offsets(tokens, dims), each: offsets(only(dims, along), dims) }
}

function read(cells: Cells, first: number, each: Int32Array): number[] {
  const values = new Array<number>(each.length)
  for (let i = 0; i < each.length; i++) values[i] = cells[first + each[i]]
  return values
}

/** out of the candidates of each token: `f` gives all of them at once. */
function mapTokens(ins: readonly Shape[], out: Shape, f: (...operands: number[][]) => number[]): Kernel {
  const tokens = without(out.dims, only(out.dims, 'candidate'))
  const [to, ...from] = [out, ...ins].map(shape => perToken(shape, 'candidate', tokens))
  return (cells, places, [at]) => {
    for (let t = 0; t < to.tokens.length; t++) {
      const operands = from.map(({ tokens, each }, i) => read(cells, places[i].at + tokens[t], each))
      f(...operands).forEach((value, c) => {
        cells[at.at + to.tokens[t] + to.each[c]] = value
      })
    }
  }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

export function softmax(logits: readonly number[]): number[] {
  const most = Math.max(...logits)
  const powers = logits.map(logit => Math.exp(logit - most))
  const total = sum(powers)
  return powers.map(power => power / total)
}

const sigmoidOf = (x: number): number => 1 / (1 + Math.exp(-x))

export const sigmoid: Prepare<'sigmoid'> = (_, [x], [out]) => {
  const [xs] = aligned([x], out)
  return (cells, [from], [to]) => {
    for (let i = 0; i < xs.length; i++) cells[to.at + i] = sigmoidOf(cells[from.at + xs[i]])
  }
}

export const sigmoidGrad: Prepare<'sigmoidGrad'> = (_, [dy, y], [out]) => {
  const [dys, ys] = aligned([dy, y], out)
  return (cells, [atDy, atY], [to]) => {
    for (let i = 0; i < ys.length; i++) {
      const y = cells[atY.at + ys[i]]
      cells[to.at + i] = cells[atDy.at + dys[i]] * y * (1 - y)
    }
  }
}

export const scores: Prepare<'scores'> = ({ by }, ins, [out]) =>
  mapTokens(ins, out, by === 'softmax' ? softmax : logits => logits.map(sigmoidOf))

export const scoresGrad: Prepare<'scoresGrad'> = ({ by }, ins, [out]) =>
  mapTokens(ins, out, (dscores, scores) => {
    if (by === 'sigmoid') return scores.map((score, i) => dscores[i] * score * (1 - score))
    const mean = sum(scores.map((score, i) => score * dscores[i]))
    return scores.map((score, i) => score * (dscores[i] - mean))
  })

/** The numbers of the `count` highest, the highest first. */
function highest(values: readonly number[], count: number): number[] {
  if (values.some(Number.isNaN)) return new Array<number>(count).fill(NaN)
  return values
    .map((_, i) => i)
    .sort((a, b) => values[b] - values[a] || a - b)
    .slice(0, count)
}

/** Candidates of groups that may not be chosen from fall out of the comparison, whatever the sign of the others. */
function limited(values: readonly number[], groups: number, chosenGroups: number, chosen: number): number[] {
  const size = values.length / groups
  const rated = Array.from({ length: groups }, (_, group) => {
    const own = values.slice(group * size, (group + 1) * size)
    return sum(highest(own, chosen / chosenGroups).map(i => own[i]))
  })
  const open = new Set(highest(rated, chosenGroups))
  return values.map((value, i) => (open.has(Math.floor(i / size)) ? value : -Infinity))
}

export const topK: Prepare<'topK'> = ({ groups }, [scores, bias], [out]) => {
  const chosen = sizeIn(out.dims, 'choice')!
  const tokens = without(out.dims, only(out.dims, 'choice'))
  const [from, to] = [perToken(scores, 'candidate', tokens), perToken(out, 'choice', tokens)]
  const biases = bias && offsets(only(scores.dims, 'candidate'), bias.dims)
  return (cells, [atScores, atBias], [at]) => {
    for (let t = 0; t < to.tokens.length; t++) {
      const plain = read(cells, atScores.at + from.tokens[t], from.each)
      const rated = biases ? plain.map((score, i) => score + cells[atBias.at + biases[i]]) : plain
      const open = groups ? limited(rated, groups.groups, groups.chosenGroups, chosen) : rated
      highest(open, chosen).forEach((candidate, i) => {
        cells[at.at + to.tokens[t] + to.each[i]] = candidate
      })
    }
  }
}

/** Keeps a sum of nothing from dividing. */
const tiny = 1e-20

const weightsOf = (
  picked: readonly number[],
  { normalise, scale }: { normalise: boolean; scale: number },
): number[] => {
  const total = normalise ? sum(picked) + tiny : 1
  return picked.map(score => (score / total) * scale)
}

const pickedOf = (scores: readonly number[], choice: readonly number[]): number[] =>
  choice.map(candidate => (candidate === -1 ? 0 : (scores[candidate] ?? NaN)))

export const chosen: Prepare<'chosen'> = (op, [scores, choice], [out]) => {
  const tokens = without(out.dims, only(out.dims, 'choice'))
  const from = perToken(scores, 'candidate', tokens)
  const [picks, to] = [choice, out].map(shape => perToken(shape, 'choice', tokens))
  return (cells, [atScores, atChoice], [at]) => {
    for (let t = 0; t < to.tokens.length; t++) {
      const all = read(cells, atScores.at + from.tokens[t], from.each)
      const picked = pickedOf(all, read(cells, atChoice.at + picks.tokens[t], picks.each))
      weightsOf(picked, op).forEach((weight, i) => {
        cells[at.at + to.tokens[t] + to.each[i]] = weight
      })
    }
  }
}

export const chosenGrad: Prepare<'chosenGrad'> = ({ normalise, scale }, [dweight, scores, choice], [out]) => {
  const tokens = without(out.dims, only(out.dims, 'candidate'))
  const [from, to] = [scores, out].map(shape => perToken(shape, 'candidate', tokens))
  const [given, picks] = [dweight, choice].map(shape => perToken(shape, 'choice', tokens))
  return (cells, [atGiven, atScores, atChoice], [at]) => {
    for (let t = 0; t < to.tokens.length; t++) {
      const all = read(cells, atScores.at + from.tokens[t], from.each)
      const choices = read(cells, atChoice.at + picks.tokens[t], picks.each)
      const slopes = read(cells, atGiven.at + given.tokens[t], given.each).map(slope => slope * scale)
      const picked = pickedOf(all, choices)
      const total = normalise ? sum(picked) + tiny : 1
      const shared = normalise ? sum(picked.map((score, i) => (score / total) * slopes[i])) : 0
      for (const one of to.each) cells[at.at + to.tokens[t] + one] = 0
      choices.forEach((candidate, i) => {
        const where = at.at + to.tokens[t] + (to.each[candidate] ?? to.each[0])
        if (candidate !== -1) cells[where] += (slopes[i] - shared) / total
        if (Number.isNaN(candidate)) cells[where] = NaN
      })
    }
  }
}

/** A choice of one token, as those who have room for it see it. */
interface Wish {
  readonly token: number
  readonly choice: number
  readonly expert: number
  /** Rounded: tokens that are alike differ by the order of some sum, which a plan changes. */
  readonly score: number
}

/** Of a score, by which those who want the same room are told apart. */
const scoreBits = 16

/** Halves up. */
function rounded(score: number): number {
  const unit = 2 ** (Math.floor(Math.log2(score)) + 1 - scoreBits)
  return score > 0 ? Math.round(score / unit) * unit : score
}

const before: Readonly<Record<'choice' | 'token' | 'probability', (a: Wish, b: Wish) => number>> = {
  choice: (a, b) => a.choice - b.choice || a.token - b.token,
  token: (a, b) => a.token - b.token || a.choice - b.choice,
  probability: (a, b) => b.score - a.score || a.token - b.token,
}

/**
 * The sequences of a rank are whole here: who comes first is a matter of all their tokens, as they follow each other. Where they
 * lie otherwise, `lying` [batch slot] says which token lies at each slot.
 */
export const assign: Prepare<'assign'> = ({ room, tokens: run, order }, [scores, choice, lying], [out]) => {
  const tokens = ['batch', 'seq'].flatMap(name => only(out.dims, name))
  const from = perToken(scores, 'candidate', tokens)
  const [picks, to] = [choice, out].map(shape => perToken(shape, 'choice', tokens))
  const slotsOf = slotsIn(tokens, lying)
  return (cells, [atScores, atChoice, atLying], [at]) => {
    const slots = slotsOf(cells, atLying)
    if (!slots) return void cells.fill(NaN, at.at, at.at + elementsOf(out.dims))
    for (let first = 0; first < slots.length; first += run) {
      const wishes = Array.from({ length: run }, (_, i) => first + i).flatMap(token =>
        read(cells, atChoice.at + picks.tokens[slots[token]], picks.each).map((expert, choice): Wish => {
          const score = cells[atScores.at + from.tokens[slots[token]] + from.each[expert]]
          return { token, choice, expert, score: rounded(score) }
        }),
      )
      const taken = new Map<number, number>()
      for (const { token, choice, expert } of wishes.sort(before[order])) {
        const n = taken.get(expert) ?? 0
        taken.set(expert, n + 1)
        cells[at.at + to.tokens[slots[token]] + to.each[choice]] = n < room || Number.isNaN(expert) ? expert : -1
      }
    }
  }
}

/** For each token of all sequences the slot where it lies; nothing where the order was never written, or freed. */
function slotsIn(tokens: readonly Dim[], lying: Shape | undefined) {
  const places = Array.from({ length: elementsOf(tokens) }, (_, token) => token)
  if (!lying) return () => places
  const slots = only(lying.dims, 'slot')
  const [sequences, each] = [offsets(only(tokens, 'batch'), lying.dims), offsets(slots, lying.dims)]
  return (cells: Cells, { at }: Place): readonly number[] | undefined => {
    const found = places.map(() => NaN)
    sequences.forEach((sequence, s) => {
      each.forEach((slot, i) => {
        found[s * each.length + cells[at + sequence + slot]] = s * each.length + i
      })
    })
    return found.length === places.length && !found.some(Number.isNaN) ? found : undefined
  }
}

/** Adds up, for each candidate, what `of` finds in a token; what the result lacks is summed over. */
function tally(from: Shape, out: Shape, along: string, of: (values: number[]) => readonly number[]): Kernel {
  const kept = without(out.dims, only(out.dims, 'candidate'))
  within({ dims: kept, whole: kept }, from)
  const tokens = without(from.dims, only(from.dims, along))
  const [read1, to] = [perToken(from, along, tokens), offsets(tokens, out.dims)]
  const candidates = offsets(only(out.dims, 'candidate'), out.dims)
  const elements = elementsOf(out.dims)
  return (cells, [place], [at]) => {
    cells.fill(0, at.at, at.at + elements)
    for (let t = 0; t < to.length; t++)
      for (const candidate of of(read(cells, place.at + read1.tokens[t], read1.each)))
        if (candidate !== -1) cells[at.at + to[t] + (candidates[candidate] ?? NaN)] += 1
  }
}

export const countChoices: Prepare<'countChoices'> = (_, [choice], [out]) => tally(choice, out, 'choice', all => all)

export const countTop: Prepare<'countTop'> = ({ chosen }, [scores], [out]) =>
  tally(scores, out, 'candidate', all => highest(all, chosen))

/** Scores as shares of 1 where they are not. */
const sharesOf = (scores: readonly number[], shares: boolean): { total: number; each: number[] } => {
  const total = shares ? sum(scores) : 1
  return { total, each: scores.map(score => score / total) }
}

/** A scalar of all tokens. */
function lossOf(ins: readonly Shape[], f: (...operands: number[][]) => number): Kernel {
  const tokens = without(ins[0].dims, only(ins[0].dims, 'candidate'))
  const from = ins.map(shape => ({ tokens: offsets(tokens, shape.dims), each: perToken(shape, 'candidate').each }))
  return (cells, places, [to]) => {
    let total = 0
    for (let t = 0; t < from[0].tokens.length; t++)
      total += f(...from.map(({ tokens, each }, i) => read(cells, places[i].at + tokens[t], each)))
    cells[to.at] = total
  }
}

export const balanceLoss: Prepare<'balanceLoss'> = ({ by, shares }, ins) =>
  lossOf(ins, (scores, counts) => by * sum(sharesOf(scores, shares).each.map((share, i) => share * counts[i])))

export const balanceLossGrad: Prepare<'balanceLossGrad'> = ({ by, shares }, ins, [out]) =>
  mapTokens(ins, out, (scores, counts, [scale] = [1]) => {
    const { total, each } = sharesOf(scores, shares)
    const mean = shares ? sum(each.map((share, i) => share * counts[i])) : 0
    return counts.map(count => ((by * (count - mean)) / total) * scale)
  })

const logSumExp = (logits: readonly number[]): number => {
  const most = Math.max(...logits)
  return most + Math.log(sum(logits.map(logit => Math.exp(logit - most))))
}

export const zLoss: Prepare<'zLoss'> = ({ by }, ins) => lossOf(ins, logits => by * logSumExp(logits) ** 2)

export const zLossGrad: Prepare<'zLossGrad'> = ({ by }, ins, [out]) =>
  mapTokens(ins, out, (logits, [scale] = [1]) => {
    const slope = 2 * by * logSumExp(logits)
    return softmax(logits).map(share => slope * share * scale)
  })

export const balance: Prepare<'balance'> = (op, [counts], [out]) => {
  const { rate, mean } = op
  const [from] = aligned([counts], out)
  return (cells, [at, norm], [to]) => {
    if (!(cells[norm.at] < squaredLimit(op))) return
    for (let i = 0; i < from.length; i++) cells[to.at + i] += rate * Math.sign(mean - cells[at.at + from[i]])
  }
}
