/** How a segment of a block uses fused parameters: forward, input gradient, weight gradients. */
import type { Dim } from '../base/index.js'
import { type InstrOf, isCollective, type Ref, type Segment, traitsOf } from '../ir/index.js'
import { namesIn } from './expressions.js'

type Contract = InstrOf<'contract'>

/** All lists are in the order of the parameters in the fused matrix; empty where the segment has no such matmul. */
export interface FusedMatmuls {
  readonly params: readonly Ref[]
  readonly grads: readonly Ref[]
  /** What a parameter has of its operand, and what it has beside that. */
  readonly rows: readonly Dim[]
  readonly widths: readonly (readonly Dim[])[]
  readonly forward: readonly Contract[]
  /** The gradient of the operand: a product each, and their sum. */
  readonly input: readonly Contract[]
  readonly sum?: InstrOf<'add'>
  readonly weights: readonly Contract[]
  readonly accumulates: readonly InstrOf<'accumulate'>[]
}

/** Nothing where the segment knows none of these names; 'apart' where it uses them in another way. */
export function fusedMatmuls(segment: Segment, names: readonly string[]): FusedMatmuls | 'apart' | undefined {
  const { roles, buffers, instrs } = segment
  const nameOf = (ref: Ref) => roles[buffers[ref].role].name
  const known = Object.keys(buffers).filter(ref => isNamed(nameOf(ref), names))
  if (known.length === 0) return undefined
  const refs = (is: 'param' | 'grad') =>
    names.flatMap(of => known.filter(ref => nameOf(ref).is === is && isNamed(nameOf(ref), [of])))
  const [params, grads] = [refs('param'), refs('grad')]
  const touching = instrs.filter(instr =>
    [...traitsOf(instr).reads, ...traitsOf(instr).writes].some(ref => known.includes(ref)),
  )
  const products = params.map(
    ref => touching.filter(instr => instr.kind === 'contract' && instr.ins[1] === ref) as Contract[],
  )
  const of = (use: Product['use']) =>
    products.flatMap(each => each.filter(contract => productOf(segment, contract)?.use === use))
  const accumulates = grads.flatMap(ref =>
    touching.filter(instr => instr.kind === 'accumulate' && instr.outs[0] === ref),
  )
  const found = {
    ...{ params, grads, forward: of('forward'), input: of('input') },
    accumulates: accumulates as InstrOf<'accumulate'>[], // by their kind
  }
  const weights = found.accumulates.flatMap(({ ins: [value] }) => gradientsIn(segment, value))
  const lists = [params, grads, found.forward, found.input, accumulates, weights]
  const isComplete =
    params.length + grads.length === known.length &&
    touching.length === found.forward.length + found.input.length + accumulates.length &&
    weights.length === accumulates.length &&
    lists.every(({ length }) => length === 0 || length === names.length)
  const shapes = shapesOf(segment, [found.forward, found.input, weights])
  if (!isComplete || shapes === undefined) return 'apart'
  const sum = sumOf(segment, found.input)
  if (found.input.length > 0 && sum === undefined) return 'apart'
  return { ...found, ...shapes, weights, ...(sum && { sum }) }
}

const isNamed = (name: Segment['roles'][number]['name'], names: readonly string[]): boolean =>
  ['param', 'full', 'grad', 'fresh', 'reduced'].includes(name.is) && 'of' in name && names.includes(name.of ?? '')

interface Product {
  readonly use: 'forward' | 'input' | 'weights'
  readonly rows: readonly Dim[]
  readonly width: readonly Dim[]
}

const without = (dims: readonly Dim[], gone: readonly Dim[]): Dim[] =>
  dims.filter(({ name }) => !gone.some(dim => dim.name === name))

/** [m rows] [rows width] -> [m width], or [m width] [rows width] -> [m rows]. */
function productOf({ buffers }: Segment, { ins: [x, weight], outs: [out] }: Contract): Product | undefined {
  const [given, matrix, made] = [x, weight, out].map(ref => buffers[ref].dims)
  const gone = without(matrix, made)
  const [first, last] = [matrix.slice(0, gone.length), matrix.slice(matrix.length - gone.length)]
  const fits = (kept: readonly Dim[]) => namesIn(made) === namesIn([...without(given, gone), ...kept])
  const rest = without(matrix, gone)
  if (gone.length === 0 || rest.length === 0 || !fits(rest)) return undefined
  if (namesIn(gone) === namesIn(first)) return { use: 'forward', rows: gone, width: rest }
  return namesIn(gone) === namesIn(last) ? { use: 'input', rows: rest, width: gone } : undefined
}

/** [m rows] [m width] -> [rows width] */
function gradientOf({ buffers }: Segment, { ins: [x, dy], outs: [out] }: Contract): Product | undefined {
  const [given, slope, made] = [x, dy, out].map(ref => buffers[ref].dims)
  const [rows, width] = [without(given, slope), without(slope, given)]
  const summed = without(given, rows)
  const fits = namesIn(made) === namesIn([...rows, ...width]) && namesIn(slope) === namesIn([...summed, ...width])
  return fits && rows.length > 0 && width.length > 0 ? { use: 'weights', rows, width } : undefined
}

/** The product that makes a parameter's gradient, if nobody but its sum is given that. */
function gradientsIn(segment: Segment, value: Ref): Contract[] {
  const { instrs } = segment
  const makes = instrs.filter(instr => traitsOf(instr).writes.includes(value))
  const [made] = makes
  const isOurs = makes.length === 1 && made.kind === 'contract' && gradientOf(segment, made) !== undefined
  return isOurs && isPassing(segment, value) ? [made] : []
}

/** Read once, and gone with the call. */
export const isPassing = ({ instrs, buffers, roles }: Segment, ref: Ref): boolean =>
  roles[buffers[ref].role].name.is === 'scratch' &&
  instrs.filter(instr => traitsOf(instr).reads.includes(ref)).length === 1

function sumOf(segment: Segment, contracts: readonly Contract[]): InstrOf<'add'> | undefined {
  const outs = contracts.map(({ outs: [out] }) => out)
  const sum = segment.instrs.find(instr => instr.kind === 'add' && instr.ins.some(ref => outs.includes(ref)))
  if (sum?.kind !== 'add' || sum.ins.length !== outs.length || !outs.every(ref => sum.ins.includes(ref)))
    return undefined
  const { dtype } = segment.buffers[sum.outs[0]]
  return outs.every(ref => isPassing(segment, ref) && segment.buffers[ref].dtype === dtype) ? sum : undefined
}

/** The same rows in all products, the same width of each parameter, one operand in all of one kind, one dtype. */
function shapesOf(
  segment: Segment,
  kinds: readonly (readonly Contract[])[],
): Pick<FusedMatmuls, 'rows' | 'widths'> | undefined {
  const { buffers, instrs } = segment
  const read = kinds.map((contracts, kind) =>
    contracts.map(contract => (kind < 2 ? productOf(segment, contract) : gradientOf(segment, contract))!),
  )
  const known = read.find(({ length }) => length > 0)
  if (known === undefined) return undefined
  const sizes = (dims: readonly Dim[]) => JSON.stringify(dims.map(({ name, size }) => [name, size]))
  const isAlike = read.every(products =>
    products.every(
      ({ rows, width }, i) => sizes(rows) === sizes(known[0].rows) && sizes(width) === sizes(known[i].width),
    ),
  )
  const one = (items: readonly unknown[]) => new Set(items).size <= 1
  const [forward, input, weights] = kinds
  const areOne =
    [forward, weights].every(contracts => one(contracts.map(({ ins: [x] }) => x))) &&
    kinds.every(contracts => one(contracts.map(({ outs: [out] }) => buffers[out].dtype))) &&
    kinds.every(contracts => one(contracts.map(({ ins: [, b] }) => buffers[b].dtype)))
  // Slopes are read later than the program reads them: a collective must not have worked in place meanwhile.
  const slopes = [...input.map(({ ins: [dy] }) => dy), ...weights.map(({ ins: [, dy] }) => dy)]
  const areLocal = instrs.every(instr => !isCollective(instr) || !instr.ins.some(ref => slopes.includes(ref)))
  return isAlike && areOne && areLocal ? { rows: known[0].rows, widths: known.map(({ width }) => width) } : undefined
}
