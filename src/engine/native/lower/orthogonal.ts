/**
 * Newton and Schulz as products: x -> a x + (b s + c s^2) x, where s is x by its own transpose, the shorter way. Factors are
 * moved so that sums come with the products: c (s s + b/c s) and c (... x + a/c x).
 */
import { elementsOf, type Lines, liesInBlocks, matricesIn, newtonSchulzFactors } from '../../../base/index.js'
import { bytesPer, type InstrOf } from '../../../ir/index.js'
import { backwards, type Run, runsOf } from './shapes.js'
import { copyRuns, dims, type Site, size } from './site.js'

type Form = 'NN' | 'NT' | 'TN'

export function orthogonal(instr: InstrOf<'newtonSchulz'>, s: Site): void {
  const { ins, outs, inputs, steps, lines } = instr
  const { each, rows, columns } = matricesIn(dims(s, ins[0]), inputs, lines)
  const [n, short] = [rows * columns, Math.min(rows, columns)]
  const [x, out, spare] = [...ins, ...outs].map(ref => s.at(ref))
  const gram = spare + n * bytesPer.f32
  const mixed = gram + short * short * bytesPer.f32
  const laid = mixed + short * short * bytesPer.f32
  const stacked = lines ? dims(s, ins[0])[0].size : 1
  const line = elementsOf(dims(s, ins[0])) / stacked
  for (let i = 0; i < each; i++) {
    const at = (Math.floor((i * stacked) / each) * line + (i % (each / stacked)) * n) * bytesPer.f32
    const first = { in: (i % (each / stacked)) * n, line: Math.floor((i * stacked) / each) * line }
    const runs = lines && liesInBlocks(lines) ? runsInLine(lines, line, first, n) : undefined
    const made = runs ? laid : out + at
    if (runs) copyRuns(s, runs.map(backwards), { dtype: 'f32', x, out: laid })
    s.list.write('normalise', { out: made, x: runs ? laid : x + at, n })
    for (let step = 0; step < steps; step++) once(s, { made, spare, gram, mixed, rows, columns })
    if (runs) copyRuns(s, runs, { dtype: 'f32', x: laid, out })
  }
  for (let i = 0; lines && i < stacked; i++) clearRests(s, lines, line, out + i * line * bytesPer.f32)
}

/** From a matrix to the blocks of its line; of an expert, behind those before it. */
function runsInLine({ dims, blocks }: Lines, line: number, first: { in: number; line: number }, n: number): Run[] {
  const ofExperts = dims[0].name === 'expert' ? 1 : 0
  const [whole, ways] = [dims.slice(ofExperts), blocks.slice(ofExperts)]
  const block = whole.map(({ name, size: all }, i) => ({ name, size: all / ways[i] }))
  const count = n / elementsOf(block)
  return Array.from({ length: count }, (_, index) => index).flatMap(index => {
    let [rest, from, stride] = [index, 0, 1]
    for (let d = whole.length - 1; d >= 0; d--) {
      from += (rest % ways[d]) * block[d].size * stride
      rest = Math.floor(rest / ways[d])
      stride *= whole[d].size
    }
    const to = first.line + index * (line / count) + first.in / count
    return runsOf(block, whole, block).map(run => ({ ...run, from: run.from + from, to: run.to + to }))
  })
}

/** What blocks leave of their room. */
function clearRests(s: Site, { dims: whole, blocks }: Lines, line: number, at: number): void {
  const count = blocks.reduce((product, ways) => product * ways, 1)
  const [room, held] = [line / count, elementsOf(whole) / count]
  for (let i = 0; i < count && held < room; i++)
    s.list.write('fill', { out: at + (i * room + held) * bytesPer.f32, n: room - held, value: 0 })
}

export function stack({ ins, outs: [out] }: InstrOf<'stack'>, s: Site): void {
  const [{ size: places }, { size: line }] = dims(s, out)
  for (const [i, x] of ins.entries()) copyLine(s, s.at(x), s.at(out) + i * line * bytesPer.f32, size(s, x))
  const rest = (places - ins.length) * line
  if (rest > 0) s.list.write('fill', { out: s.at(out) + ins.length * line * bytesPer.f32, n: rest, value: 0 })
}

export function unstack({ ins: [x], outs }: InstrOf<'unstack'>, s: Site): void {
  const [, { size: line }] = dims(s, x)
  for (const [i, out] of outs.entries()) copyLine(s, s.at(x) + i * line * bytesPer.f32, s.at(out), size(s, out))
}

const copyLine = (s: Site, x: number, out: number, columns: number): void =>
  void s.list.write('copy', { out, x, rows: 1, columns, strideOut: columns, strideX: columns })

interface Places {
  readonly made: number
  readonly spare: number
  readonly gram: number
  readonly mixed: number
  readonly rows: number
  readonly columns: number
}

function once(s: Site, { made, spare, gram, mixed, rows, columns }: Places): void {
  const [a, b, c] = newtonSchulzFactors
  const wide = rows <= columns
  const [short, long, n] = [Math.min(rows, columns), Math.max(rows, columns), rows * columns]
  const multiply = (into: number, [left, right]: readonly number[], sizes: readonly number[], form: Form, add = 0) => {
    const [m, n, k] = sizes
    const flags = { transA: Number(form[0] === 'T'), transB: Number(form[1] === 'T') }
    const one = { batch: 1, strideA: 0, strideB: 0, strideOut: 0 }
    s.list.write('matmul', { out: into, a: left, b: right, bias: 0, add, m, n, k, ...flags, ...one })
  }
  multiply(gram, [made, made], [short, short, long], wide ? 'NT' : 'TN')
  s.list.write('scale', { out: mixed, x: gram, n: short * short, by: b / c })
  multiply(mixed, [gram, gram], [short, short, short], 'NN', mixed)
  s.list.write('scale', { out: spare, x: made, n, by: a / c })
  if (wide) multiply(spare, [mixed, made], [rows, columns, rows], 'NN', spare)
  else multiply(spare, [made, mixed], [rows, columns, columns], 'NN', spare)
  s.list.write('scale', { out: made, x: spare, n, by: c })
}
