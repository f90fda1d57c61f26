/**
 * Newton and Schulz as products: x -> a x + (b s + c s^2) x, where s is x by its own transpose, the shorter way. Factors are
 * moved so that sums come with the products: c (s s + b/c s) and c (... x + a/c x).
 */
import { newtonSchulzFactors, shapeOfMatrix } from '../../../base/index.js'
import { bytesPer, type InstrOf } from '../../../ir/index.js'
import { dims, type Site } from './site.js'

type Form = 'NN' | 'NT' | 'TN'

export function orthogonal({ ins: [x], outs: [out, room], inputs, steps }: InstrOf<'newtonSchulz'>, s: Site): void {
  const { each, rows, columns } = shapeOfMatrix(dims(s, x), inputs)
  const [n, short] = [rows * columns, Math.min(rows, columns)]
  const spare = s.at(room)
  const gram = spare + n * bytesPer.f32
  const mixed = gram + short * short * bytesPer.f32
  for (let i = 0; i < each; i++) {
    const made = s.at(out) + i * n * bytesPer.f32
    s.list.write('normalise', { out: made, x: s.at(x) + i * n * bytesPer.f32, n })
    for (let step = 0; step < steps; step++) once(s, { made, spare, gram, mixed, rows, columns })
  }
}

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
