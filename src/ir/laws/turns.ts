/**
 * T1 for what goes round. Attention may be given the keys of one rank at a time, those of a rank so many turns before: it
 * then gives shares. Shares of different turns are added up, or merged, and all that are needed make the value; nobody
 * else is given what has gone round or lacks shares.
 */
import { type Axis, type Mesh, type Shares, type Spoken, sizeOfAll, splitOf, zigzagAxes } from '../../base/index.js'
import type { Compute } from '../instr.js'
import { showShaped } from '../text/codec.js'
import { clause } from './phrases.js'
import { signatures } from './signatures.js'
import type { Say, Type } from './type.js'

interface Given {
  readonly mesh: Mesh
  readonly instr: Compute
  readonly operands: readonly Type[]
  readonly say: Say
}

/** Operands as the rules of one axis after the other see them, and what these do not see of a result. */
export interface Unrolled {
  readonly operands: readonly Type[]
  readonly finish: (result: Type, index: number) => Type
}

/** Why a type is not a value in its place. */
export function unfinished({ layout: { turn, shares } }: Type): Spoken | undefined {
  if (turn) return clause('.gone-round', { axes: turn.axes.join() })
  return shares && clause('.has-shares', { held: shares.held.join(), needed: shares.needed.join() })
}

/** Undefined where a finding says what is wrong. */
export function unrolled(given: Given): Unrolled | undefined {
  const { instr, operands } = given
  const { round, sums } = signatures[instr.kind]
  const axes = round && axesOfRound(given.mesh, operands[round.queries], operands[round.keys[0]])
  if (round && axes) return attended(given, round, axes)
  if (sums && (operands.some(({ layout }) => layout.shares) || sums !== 'all'))
    return summed(given, sums === 'all' ? [operands.map((_, i) => i)] : sums)
  return operands.every((_, i) => isFinished(given, i)) ? { operands, finish: type => type } : undefined
}

function isFinished({ instr, operands, say }: Given, i: number): boolean {
  const why = unfinished(operands[i])
  if (why) say('T1', clause('T/is-but', { ref: instr.ins[i], type: showShaped(operands[i]), why }))
  return why === undefined
}

/** The axes that split keys as they split queries, all of them in zigzag or none: every rank sees those of one rank. */
function axesOfRound(mesh: Mesh, queries: Type, keys: Type): readonly Axis[] | undefined {
  const [asked, held] = [splitOf(queries.layout, 'seq'), splitOf(keys.layout, 'keys')]
  const zigzag = zigzagAxes(mesh, held).length
  const alike = held.length > 0 && asked.join() === held.join() && (zigzag === 0 || zigzag === held.length)
  return alike ? held : undefined
}

function attended(given: Given, { keys }: { keys: readonly number[] }, axes: readonly Axis[]): Unrolled | undefined {
  const { mesh, instr, operands, say } = given
  const along = axes.join()
  const turnOf = (i: number) => operands[i].layout.turn ?? { axes, by: 0 }
  const { by: turn } = turnOf(keys[0])
  const isOdd = (i: number) => turnOf(i).by !== turn || turnOf(i).axes.join() !== along
  if (keys.some(i => isOdd(i) || operands[i].layout.shares)) {
    const of = keys.map(i => clause('T/is', { ref: instr.ins[i], type: showShaped(operands[i]) }))
    return void say('T1', clause('T/keys', { keys: { joint: ',', of } }))
  }
  if (!operands.every((_, i) => keys.includes(i) || isFinished(given, i))) return undefined
  const size = operands[keys[0]].dims.find(({ name }) => name === 'keys')?.size ?? 1
  const needed = neededTurns(mesh, axes, size, 'window' in instr ? instr.window : undefined)
  if (!needed.includes(turn)) return void say('T1', clause('T/unseen', { turn }))
  const shares = needed.length > 1 ? { shares: { axes, held: [turn], needed } } : {}
  return {
    operands: operands.map((type, i) => (keys.includes(i) ? withoutRound(type) : type)),
    finish: type => {
      const { splits, partial } = type.layout
      if (!type.dims.some(({ name }) => name === 'keys')) return { ...type, layout: { splits, partial, ...shares } }
      const sums = Object.fromEntries(Object.entries(partial).filter(([axis]) => !axes.some(name => name === axis)))
      const turned = turn > 0 ? { turn: { axes, by: turn } } : {}
      return { ...type, layout: { splits: { ...splits, keys: axes }, partial: sums, ...turned, ...shares } }
    },
  }
}

const withoutRound = (type: Type): Type => {
  const { keys: _, ...splits } = type.layout.splits
  return { ...type, layout: { splits, partial: type.layout.partial } }
}

/**
 * Turns along which some rank has a query that sees a key of the rank so many before it, by the positions both hold. Where
 * documents are cut one by one, that is known to the data alone: every turn counts.
 */
export function neededTurns(mesh: Mesh, axes: readonly Axis[], size: number, window = Infinity): number[] {
  const ranks = sizeOfAll(mesh, axes)
  if (mesh.zigzag?.documents) return [...Array(ranks).keys()]
  const broken = mesh.zigzag?.dim === 'seq' && zigzagAxes(mesh, axes).length > 0
  const [chunk, chunks] = broken ? [size / 2, 2 * ranks] : [size, ranks]
  const held = (rank: number) => (broken ? [rank, chunks - 1 - rank] : [rank])
  // The distances from a query of one chunk to a key of another are a run of whole numbers; 0 to window - 1 are seen.
  const sees = (query: number, key: number) =>
    (query - key + 1) * chunk > 0 && (query - key) * chunk - (chunk - 1) < window
  const all = Array.from({ length: ranks }, (_, i) => i)
  return all.filter(turn =>
    all.some(rank => held(rank).some(q => held((rank + ranks - turn) % ranks).some(k => sees(q, k)))),
  )
}

/** Per result, the operands whose shares make it up. */
function summed(given: Given, sums: readonly (readonly number[])[]): Unrolled | undefined {
  const { instr, operands, say } = given
  const refuse = (said: Spoken) => void say('T1', said)
  const isBut = (i: number, why: Spoken) =>
    refuse(clause('T/is-but', { ref: instr.ins[i], type: showShaped(operands[i]), why }))
  const found = sums.map(list => list.map(i => operands[i].layout.shares))
  if (found.flat().some(shares => !shares)) {
    const whole = sums.flat().find(i => !operands[i].layout.shares)!
    return isBut(whole, clause('.no-share'))
  }
  const shares = found as Shares[][] // all are there
  const [first] = shares
  const kinds = new Set(shares.flat().map(({ axes, needed }) => `${axes} ${needed}`))
  const alike = shares.every(list => list.every(({ held }, i) => held.join() === first[i].held.join()))
  const turned = operands.findIndex(({ layout }) => layout.turn)
  if (turned >= 0) return isBut(turned, clause('.elsewhere'))
  if (kinds.size > 1 || !alike)
    return refuse(clause('T/shares', { types: { joint: ',', of: operands.map(showShaped) } }))
  const held = first.flatMap(share => share.held).sort((a, b) => a - b)
  const twice = held.find((turn, i) => held[i + 1] === turn)
  if (twice !== undefined) return refuse(clause('T/share-twice', { turn: twice }))
  const { axes, needed } = first[0]
  const left = held.length < needed.length ? { shares: { axes, held, needed } } : {}
  return {
    operands: operands.map(type => {
      const { shares: _, ...layout } = type.layout
      return { ...type, layout }
    }),
    finish: type => ({ ...type, layout: { ...type.layout, ...left } }),
  }
}
