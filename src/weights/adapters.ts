/** The weights of a LoRA run without adapters: what these add is added to the matrices they stand beside. */
import { type Adapters, adapterNames, alphaOverRank } from '../model/index.js'
import type { Weights } from './write.js'

/** Matrices by name, of those the weights hold, that have adapters. */
export const adaptedIn = ({ tensors }: Pick<Weights, 'tensors'>): string[] => {
  const { a } = adapterNames('')
  return [...tensors.keys()].flatMap(name =>
    name.startsWith('param.') && name.endsWith(a) ? [name.slice('param.'.length, -a.length)] : [],
  )
}

/** The tensor of a parameter as the last step left it, or its average where there is one. */
export const tensorOf = ({ tensors }: Pick<Weights, 'tensors'>, param: string, average: boolean): string =>
  average && tensors.has(`ema.${param}`) ? `ema.${param}` : `param.${param}`

/** What is frozen has no average: it is its own. */
export function mergedWeights(weights: Weights, adapters: Adapters): Weights {
  const adapted = new Set(adaptedIn(weights))
  const isAdapter = new Set([...adapted].flatMap(matrix => Object.values(adapterNames(matrix))))
  const hasAverages = [...weights.tensors.keys()].some(name => name.startsWith('ema.'))
  const plain = [...weights.tensors].filter(
    ([name]) => name.startsWith('param.') && !isAdapter.has(name.slice('param.'.length)),
  )
  const averages = hasAverages ? plain.map(([name, dims]) => [`ema.${name.slice(6)}`, dims] as const) : []
  return {
    tensors: new Map([...plain, ...averages]),
    tensor(name) {
      const [state, param] = [name.slice(0, name.indexOf('.')), name.slice(name.indexOf('.') + 1)]
      const own = weights.tensor(tensorOf(weights, param, state === 'ema'))
      if (!adapted.has(param)) return own
      const { a, b } = adapterNames(param)
      const factors = [a, b].map(of => weights.tensor(tensorOf(weights, of, state === 'ema')))
      const expert = weights.tensors.get(name)?.find(dim => dim.name === 'expert')
      return plusProduct(own, factors, expert?.size ?? 1, adapters)
    },
  }
}

/** W + (alpha / rank) A B; of experts each of its own. */
function plusProduct(w: ArrayLike<number>, [a, b]: readonly ArrayLike<number>[], each: number, adapters: Adapters) {
  const { rank } = adapters
  const by = alphaOverRank(adapters)
  const [rows, columns] = [a.length / (each * rank), b.length / (each * rank)]
  const sum = Float64Array.from(w)
  for (let row = 0; row < each * rows; row++) {
    const first = Math.floor(row / rows) * rank
    for (let k = 0; k < rank; k++) {
      const left = by * a[row * rank + k]
      for (let column = 0; column < columns; column++)
        sum[row * columns + column] += left * b[(first + k) * columns + column]
    }
  }
  return sum
}
