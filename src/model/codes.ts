/**
 * The gradients of a product of codes: two more of its kind. One scale serves a whole tensor in every product; blocks lie along what a
 * product sums over, so of what meets tokens there, and in each gradient, there are codes of other blocks, made from the same numbers.
 */
import { type Blocks, blocksOfEach, blocksWithin, type CodeType, type OpOf, sameBlocks } from '../base/index.js'
import type { Value } from './graph.js'
import { type Backward, type Gradients, names, one } from './rule.js'

/** Codes, what says how they were scaled, and how they were made. */
interface Coded {
  readonly codes: Value
  readonly amax: Value
  readonly format: CodeType
  readonly blocks?: Blocks | undefined
}

/** Gradients vary over more powers of two than what goes forward, and need fewer digits; within a block they do not. */
const formatOfGradients = (blocks: Blocks | undefined): CodeType => (blocks ? 'f8e4m3' : 'f8e5m2')

export function gradientsOfScaled(b: Backward, op: OpOf<'scaledContract'>): Gradients {
  const [[x, w, xMax, wMax], [dy]] = [b.ins, b.douts]
  if (!dy) return []
  const [ofX, ofW] = [x, w].map(codes => b.build.values[b.build.producer(codes).ins[0]])
  const [given, weight] = [x, w].map((codes, i) => ({
    codes,
    amax: [xMax, wMax][i],
    format: op.formats[i],
    blocks: op.blocks?.[i],
  }))
  const alongTokens = op.blocks ? otherCodes(b, given) : given
  const [rows, columns] = codesOfGradient(b, dy, weight, alongTokens)
  return [
    [ofX, product(b, ofX, [rows, weight])],
    [ofW, product(b, ofW, [alongTokens, columns])],
  ]
}

/** Of the gradient of a result: its blocks are those of the weight, or of the tokens, that it meets. */
function codesOfGradient(b: Backward, dy: Value, { blocks, codes: w }: Coded, tokens: Coded): readonly Coded[] {
  if (!blocks || !tokens.blocks) {
    const coded = code(b, dy, undefined)
    return [coded, coded]
  }
  const isOfWeight = names(w.dims)
  const [own, others] = [true, false].map(of => dy.dims.filter(({ name }) => isOfWeight.includes(name) === of))
  return [
    code(b, dy, { ...blocksOfEach(others), ...blocksWithin(blocks, own) }),
    code(b, dy, { ...blocksWithin(tokens.blocks, others), ...blocksOfEach(own) }),
  ]
}

function code(b: Backward, dy: Value, blocks: Blocks | undefined): Coded {
  const format = formatOfGradients(blocks)
  const of = blocks ? { blocks } : {}
  const [amax] = b.build.emit({ kind: 'absMax', ...of }, [dy], `${dy.name}.amax`)
  const [codes] = b.build.emit({ kind: 'quantize', format, ...of }, [dy, amax], `${dy.name}.codes`)
  return { codes, amax, format, blocks }
}

/** The codes of the same numbers in blocks along tokens, which the forward made for this. */
function otherCodes(b: Backward, { codes, blocks, format }: Coded): Coded {
  const { ins } = b.build.producer(codes)
  for (const { op, ins: read, outs } of b.build.nodes)
    if (op.kind === 'quantize' && read[0] === ins[0] && !sameBlocks(op.blocks, blocks))
      return { codes: b.build.values[outs[0]], amax: b.build.values[read[1]], format, blocks: op.blocks }
  throw new Error(`internal: ${codes.name} has no codes in blocks along tokens`)
}

const product = (b: Backward, of: Value, [left, right]: readonly Coded[]): Value =>
  one(
    b,
    {
      kind: 'scaledContract',
      formats: [left.format, right.format],
      ...(left.blocks && right.blocks && { blocks: [left.blocks, right.blocks] }),
    },
    [left.codes, right.codes, left.amax, right.amax],
    of,
  )
