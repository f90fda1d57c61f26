/**
 * The gradients of a product of codes: two more of its kind. One scale serves a whole tensor in every product; blocks lie along what a
 * product sums over, so of what meets tokens there, and in each gradient, there are codes of other blocks, made from the same numbers.
 */
import {
  type Blocks,
  blocksOfEach,
  blocksWithin,
  type CodeType,
  type OpOf,
  type Scaled,
  sameBlocks,
} from '../base/index.js'
import type { Value } from './graph.js'
import { type Backward, type Gradients, names, one } from './rule.js'

/** Codes, what says how they were scaled, and how they were made. */
interface Coded {
  readonly codes: Value
  /** What was greatest, or the scale itself. */
  readonly scale: Value
  readonly format: CodeType
  readonly blocks?: Blocks | undefined
}

/** Gradients vary over more powers of two than what goes forward, and need fewer digits; within a block they do not. */
export const formatOfGradients = (blocks: Blocks | undefined): CodeType => (blocks ? 'f8e4m3' : 'f8e5m2')

/** The parameter that says how a tensor is scaled, where that follows the steps before. */
export const scaleName = (name: string): string => `${name}.scale`

export function gradientsOfScaled(b: Backward, op: OpOf<'scaledContract'>): Gradients {
  const [[x, w, ...scales], [dy]] = [b.ins, b.douts]
  if (!dy) return []
  const [ofX, ofW] = [x, w].map(codes => b.build.values[b.build.producer(codes).ins[0]])
  const [given, weight] = [x, w].map((codes, i) => ({
    codes,
    scale: scales[i],
    format: op.formats[i],
    blocks: op.blocks?.[i],
  }))
  const alongTokens = op.blocks ? otherCodes(b, given) : given
  // Squares serve both products; blocks that are one number wide do not.
  const across = (op.blocks && otherCodes(b, weight)) ?? weight
  if (!alongTokens) throw new Error(`internal: ${x.name} has no codes in blocks along tokens`)
  const followed = op.by === 'scale' ? followedBy(b) : undefined
  const { rows, columns, amax } = codesOfGradient(b, { dy, followed, by: op.by }, across, alongTokens)
  return [
    [ofX, product(b, ofX, [rows, across], op)],
    [ofW, product(b, ofW, [alongTokens, columns], op)],
    ...(followed && amax ? [[followed, amax] as const] : []),
  ]
}

/**
 * Of a product with the weights of experts. The rows of an expert are ragged and come from the tokens of many ranks, so blocks along
 * them would depend on the plan: there the gradient of a weight is made from rows that are no codes.
 */
export function gradientsOfScaledExperts(b: Backward, op: OpOf<'scaledExpertContract'>): Gradients {
  const [[rows, counts, w, ...scales], [dy]] = [b.ins, b.douts]
  if (!dy) return []
  const [ofRows, ofW] = [rows, w].map(codes => b.build.values[b.build.producer(codes).ins[0]])
  const [given, weight] = [rows, w].map((codes, i): Coded => {
    return { codes, scale: scales[i], format: op.formats[i], blocks: op.blocks?.[i] }
  })
  const across = (op.blocks && otherCodes(b, weight)) ?? weight
  const followed = op.by === 'scale' ? followedBy(b) : undefined
  const blocks = across.blocks && { row: 1, ...blocksWithin(across.blocks, dy.dims) }
  const [amax] = b.build.emit({ kind: 'absMax', ...(blocks && { blocks }) }, [dy], `${dy.name}.amax`)
  const coded = code(b, dy, followed ?? amax, { ...(blocks && { blocks }), by: op.by })
  const of = (left: Coded, right: Coded) => ({
    formats: [left.format, right.format],
    ...(left.blocks && right.blocks && { blocks: [left.blocks, right.blocks] }),
    ...(op.by && { by: op.by }),
  })
  const back = [coded.codes, counts, across.codes, coded.scale, across.scale]
  const weighed: Value = blocks
    ? one(b, { kind: 'expertWeightGrad' }, [ofRows, dy, counts], ofW)
    : one(
        b,
        { kind: 'scaledExpertWeightGrad', ...of(given, coded) },
        [given.codes, coded.codes, counts, given.scale, coded.scale],
        ofW,
      )
  return [
    [ofRows, one(b, { kind: 'scaledExpertContract', ...of(coded, across) }, back, ofRows)],
    [ofW, weighed],
    ...(followed ? [[followed, amax] as const] : []),
  ]
}

/** What the gradient of a result is scaled by, where that follows the steps before. */
function followedBy(b: Backward): Value {
  const name = scaleName(`d.${b.outs[0].name}`)
  const found = b.build.values.find(({ source }) => source.kind === 'param' && source.name === name)
  if (!found) throw new Error(`internal: there is no ${name}`)
  return found
}

interface GradientCodes {
  readonly rows: Coded
  readonly columns: Coded
  /** What was greatest, of all of it. */
  readonly amax?: Value
}

/** Of the gradient of a result: its blocks are those of the weight, or of the tokens, that it meets. */
function codesOfGradient(
  b: Backward,
  { dy, followed, by }: { readonly dy: Value; readonly followed: Value | undefined } & Scaled,
  { blocks, codes: w }: Coded,
  tokens: Coded,
): GradientCodes {
  if (!blocks || !tokens.blocks) {
    const [amax] = b.build.emit({ kind: 'absMax' }, [dy], `${dy.name}.amax`)
    const coded = code(b, dy, followed ?? amax, { by })
    return { rows: coded, columns: coded, amax }
  }
  const isOfWeight = names(w.dims)
  const [own, others] = [true, false].map(of => dy.dims.filter(({ name }) => isOfWeight.includes(name) === of))
  const inBlocks = (of: Blocks) =>
    code(b, dy, b.build.emit({ kind: 'absMax', blocks: of }, [dy], `${dy.name}.amax`)[0], { blocks: of, by })
  return {
    rows: inBlocks({ ...blocksOfEach(others), ...blocksWithin(blocks, own) }),
    columns: inBlocks({ ...blocksWithin(tokens.blocks, others), ...blocksOfEach(own) }),
  }
}

function code(b: Backward, dy: Value, scale: Value, { blocks, by }: { readonly blocks?: Blocks } & Scaled): Coded {
  const format = formatOfGradients(blocks)
  const how = { ...(blocks && { blocks }), ...(by && { by }) }
  const [codes] = b.build.emit({ kind: 'quantize', format, ...how }, [dy, scale], `${dy.name}.codes`)
  return { codes, scale, format, blocks }
}

/** The codes of the same numbers in other blocks, along what a gradient sums, which the forward made for this. */
function otherCodes(b: Backward, { codes, blocks, format }: Coded): Coded | undefined {
  const { ins } = b.build.producer(codes)
  for (const { op, ins: read, outs } of b.build.nodes)
    if (op.kind === 'quantize' && read[0] === ins[0] && !sameBlocks(op.blocks, blocks))
      return { codes: b.build.values[outs[0]], scale: b.build.values[read[1]], format, blocks: op.blocks }
  return undefined
}

const product = (b: Backward, of: Value, [left, right]: readonly Coded[], { by }: Scaled): Value =>
  one(
    b,
    {
      kind: 'scaledContract',
      formats: [left.format, right.format],
      ...(left.blocks && right.blocks && { blocks: [left.blocks, right.blocks] }),
      ...(by && { by }),
    },
    [left.codes, right.codes, left.scale, right.scale],
    of,
  )
