/** Cases of what is sent as factors: columns made orthonormal, what is taken off, what states become. */
import { hashName, squaredLimit } from '../src/base/index.js'
import { type Make, moment, reference } from './kernel-draw.js'
import { guards, norms, scalar } from './kernel-scaler.js'

export const deduct: Make = ({ size, tensor }) => {
  const n = size(500)
  const [x, out] = [tensor({ n }), tensor({ n })]
  const [expected] = reference({ kind: 'deduct' }, [x], out)
  return {
    ...{ command: 'deduct', initial: { out: out.values }, ins: { x: x.values }, words: { n } },
    ...{ expected: { out: expected }, magnitude: 1, bound: 2e-7 },
  }
}

export const become: Make = ({ size, tensor, pick }) => {
  const n = size(500)
  const [next, state, guard, normSquared] = [tensor({ n }), tensor({ n }), pick(guards), scalar(pick(norms))]
  const [expected] = reference({ kind: 'become', ...guard }, [next, normSquared], state)
  return {
    ...{ command: 'become', initial: { state: state.values }, words: { n, limit: squaredLimit(guard) } },
    ins: { next: next.values, normSquared: normSquared.values },
    ...{ expected: { state: expected }, magnitude: 1, bound: 0 },
  }
}

export const gramSchmidt: Make = ({ size, tensor, pick }) => {
  const [each, rows, columns] = [pick([1, 3]), 8 + size(60), pick([1, 2, 3, 4, 5])]
  const x = tensor(each > 1 ? { expert: each, rows, columns } : { rows, columns })
  // A column that is like another, and one that is nothing.
  const [like, none] = [pick([true, false]) && columns > 1, pick([true, false]) && columns > 2]
  const values = x.values.map((value, i) => {
    const column = i % columns
    return like && column === 1 ? 2 * x.values[i - 1] : none && column === 2 ? 0 : value
  })
  const draws = pick([true, false])
  const [expected] = reference(
    { kind: 'gramSchmidt', inputs: 1, draws },
    [{ ...x, values }],
    Object.fromEntries(x.dims.map(({ name, size }) => [name, size])),
  )
  return {
    ...{ command: 'gramSchmidt', ins: { x: values }, expected: { out: expected }, magnitude: 1, bound: 1e-5 },
    words: { each, rows, columns, draws: Number(draws), seed: moment.seed, name: hashName('basis.'), first: 0 },
  }
}
