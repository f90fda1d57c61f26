/** What tests of experts share: fixtures of Megatron-LM, DeepSpeed and transformers in f64 (test/fixtures/README.md), and tensors by hand. */
import { elementsOf } from '../src/base/index.js'
import { type FixtureTensor, readFixture, tensorOf } from './fixtures.js'
import { apply } from './op-cases.js'
import type { Tensor } from './tiny.js'

export const read = <T>(name: string): T => JSON.parse(readFixture(`moe/${name}.json`)) as T // as its generator wrote it

/** A fixture's tensor of these dims, under our names. */
export function tensor(given: FixtureTensor, theirs: string, ours = theirs): Tensor {
  const { dims, values } = tensorOf(given, theirs)
  return { dims: ours.split(' ').map((name, i) => ({ name, size: dims[i].size })), values }
}

export const list = (name: string, values: readonly number[]): Tensor => ({
  dims: [{ name, size: values.length }],
  values,
})

/** The routes of choices, with room for all rows. */
export function routesOf(choice: Tensor, experts: number): Tensor[] {
  const row = { name: 'row', size: elementsOf(choice.dims) }
  return apply({ kind: 'rowsOf', guarded: false }, [choice], choice.dims, [row], [{ name: 'expert', size: experts }])
}

/** Each token's choices, with their weights, the heaviest first. */
export function byWeight(choice: Tensor, weight: Tensor): { choices: number[]; weights: number[] } {
  const [width, weights] = [choice.dims[2].size, Array.from(weight.values)]
  const token = (at: number) => Math.floor(at / width)
  const order = [...weights.keys()].sort((a, b) => token(a) - token(b) || weights[b] - weights[a])
  return { choices: order.map(at => choice.values[at]), weights: order.map(at => weights[at]) }
}
