/** Weights of somebody else as a checkpoint at step 0, for programs that read no other: a group of parameters a file. */
import { elementsOf } from '../base/index.js'
import { type Checkpoint, type Heading, type PartsOfRank, printParts, type WrittenPart } from '../checkpoint/index.js'
import { wholeBox } from './place.js'

/** Whose weights are written. */
type Numbers = Pick<Checkpoint, 'tensors' | 'fill'>

export interface ConvertedCheckpoint {
  /** All of its files, in the order in which they are made. */
  readonly names: readonly string[]
  /** One after the other: each is in memory until the next is asked for. */
  files(): Generator<readonly [file: string, content: string | Uint8Array]>
}

const usualBytes = 2 ** 28

/** `heading`: the run that it claims to be of, the job and the tokenizer that it carries. */
export function convertedCheckpoint(source: Numbers, heading: Heading, mostBytes = usualBytes): ConvertedCheckpoint {
  const groups = groupsOf(source, mostBytes)
  const shards = groups.map((_, i) => `rank-${String(i).padStart(5, '0')}.safetensors`)
  const tokenizer = heading.tokenizer === undefined ? [] : ['tokenizer.json']
  const texts = ['job.json', ...tokenizer, ...Object.keys(heading.texts ?? {}), 'manifest.json']
  return {
    names: [...shards, ...texts],
    files: () => printParts(heading, partsOf(source, groups), Number.MAX_SAFE_INTEGER),
  }
}

function groupsOf({ tensors }: Numbers, mostBytes: number): string[][] {
  const groups: string[][] = []
  let room = 0
  for (const [name, dims] of tensors) {
    if (!name.startsWith('param.')) continue
    const bytes = 4 * elementsOf(dims)
    if (groups.length === 0 || bytes > room) {
      groups.push([])
      room = mostBytes
    }
    groups[groups.length - 1].push(name)
    room -= bytes
  }
  return groups
}

/** A file of a rank is what a group is here. */
function* partsOf({ tensors, fill }: Numbers, groups: readonly (readonly string[])[]): Generator<PartsOfRank> {
  for (const [rank, group] of groups.entries())
    yield [
      rank,
      group.map((tensor): WrittenPart => {
        const dims = tensors.get(tensor) ?? []
        const [box, values] = [wholeBox(dims), new Float32Array(elementsOf(dims))]
        const wrong = fill(tensor, [{ ...box, values }])
        if (wrong.length > 0) throw new Error(wrong.join('; '))
        return { tensor, dims, box, values }
      }),
    ]
}
