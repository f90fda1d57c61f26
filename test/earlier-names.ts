/** Checkpoints as earlier versions wrote them: norm weights are called `norm1.gain`, in the manifest and in every shard. */
import { printCheckpoint, type ReadFile, readCheckpoint } from '../src/checkpoint/index.js'
import type { Program } from '../src/ir/index.js'

const earlier = (name: string): string => name.replace(/(\bnorm\d?)\.weight$/, '$1.gain')
const today = (name: string): string => name.replace(/(\bnorm\d?)\.gain$/, '$1.weight')

/** The files of a checkpoint of this program, written anew by a program whose parameters have their names of before. */
export function withEarlierNames(program: Program, read: ReadFile): Map<string, Uint8Array> {
  const { fill, job, tensors: _, ...position } = readCheckpoint(read)
  const before = { ...program, params: program.params.map(param => ({ ...param, name: earlier(param.name) })) }
  const files = printCheckpoint(before, { ...position, job: job(), texts: {}, tokenizer: undefined }, shard => {
    const target = {
      ...shard,
      values: new Float64Array(shard.line ? shard.line[1] - shard.line[0] : size(shard.shape)),
    }
    const wrong = fill(today(shard.tensor), [target])
    if (wrong.length > 0) throw new Error(wrong.join('; '))
    return target.values
  })
  const bytes = (content: string | Uint8Array) =>
    typeof content === 'string' ? new TextEncoder().encode(content) : content
  return new Map([...files].map(([name, content]) => [name, bytes(content)]))
}

const size = (shape: readonly number[]): number => shape.reduce((product, length) => product * length, 1)
