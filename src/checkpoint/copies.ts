/**
 * Copies of all that a step leaves to the next, in the memory of two ranks each. The first rank that holds a part keeps a
 * copy of it, since a step that fails leaves half of its updates behind; so does a rank of another failure domain that
 * holds the same part, and only where there is none is the copy sent to a partner. What a lost rank held or kept is gone.
 */
import { type Dim, type Rank, worldOf } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { copyShared, elementsIn, type Numbers } from './box.js'
import { type Checkpoint, type Damage, requireFinite, wholeOf } from './checkpoint.js'
import { domainOf, partnerOf, usualJump } from './cliques.js'
import type { Position } from './manifest.js'
import { type Shard, shardsOf } from './shards.js'

/** A part of a tensor, and the ranks that keep a copy of it: one where there is nobody else. */
export interface KeptPart {
  /** Of the first rank that holds it. */
  readonly shard: Shard
  readonly holders: readonly Shard[]
  readonly keepers: readonly Rank[]
  /** Of these, one that does not hold the part itself: to it the copy is sent. */
  readonly sentTo?: Rank
}

export interface Copies {
  /** Copies everything; what was there before is gone. */
  take(position: Position, held: (shard: Shard) => Numbers): void
  /** What these ranks kept is lost. */
  lose(ranks: Iterable<Rank>): void
  /** The copy that was taken last, as a checkpoint, whose parts say when nobody has them any more. */
  checkpoint(): Checkpoint | undefined
  /** Of one copy: all that is written, and what of it goes to other ranks. */
  readonly bytes: number
  readonly sentBytes: number
}

/** `jump`: ranks that share a node, and fail together. */
export function keptParts(program: Program, jump = usualJump(worldOf(program.mesh))): KeptPart[] {
  const world = worldOf(program.mesh)
  const holders = new Map<string, Shard[]>()
  for (let rank = 0; rank < world; rank++)
    for (const shard of ownShards(program, rank)) {
      const key = keyOf(shard)
      if (!holders.has(key)) holders.set(key, [])
      holders.get(key)!.push(shard)
    }
  return [...holders.values()].flatMap(shards => {
    const shard = shards.find(({ written }) => written)
    return shard ? [{ shard, holders: shards, ...keepersOf(shard.rank, shards, world, jump) }] : []
  })
}

/** A parameter that is rounded from a master is made again from it. */
function ownShards(program: Program, rank: Rank): Shard[] {
  const last = new Map(shardsOf(program, rank).map(shard => [shard.tensor, shard]))
  return [...last.values()].filter(shard => elementsIn(shard) > 0)
}

const keyOf = ({ tensor, start, shape, line }: Shard): string => JSON.stringify([tensor, start, shape, line])

function keepersOf(
  first: Rank,
  holders: readonly Shard[],
  world: number,
  jump: number,
): Pick<KeptPart, 'keepers' | 'sentTo'> {
  const far = holders.find(({ rank }) => domainOf(rank, jump) !== domainOf(first, jump))
  if (far) return { keepers: [first, far.rank] }
  const partner = partnerOf(first, world, jump)
  if (partner === first) return { keepers: [first] }
  return { keepers: [first, partner], ...(holders.every(({ rank }) => rank !== partner) && { sentTo: partner }) }
}

/** The copies of a part, by the rank that keeps them. */
interface CopiedPart extends KeptPart {
  readonly kept: Map<Rank, Numbers>
}

export function openCopies(program: Program, jump?: number): Copies {
  const parts: readonly CopiedPart[] = keptParts(program, jump).map(part => ({ ...part, kept: new Map() }))
  let position: Position | undefined
  let [bytes, sentBytes] = [0, 0]
  return {
    take(at, held) {
      position = undefined // a copy that fails half-way is none
      ;[bytes, sentBytes] = [0, 0]
      for (const part of parts) {
        const values = held(part.shard).subarray(0, elementsIn(part.shard))
        for (const keeper of part.keepers) part.kept.set(keeper, copied(values, part.kept.get(keeper)))
        bytes += values.byteLength * part.keepers.length
        if (part.sentTo !== undefined) sentBytes += values.byteLength
      }
      position = at
    },
    lose(ranks) {
      for (const rank of ranks) for (const { kept } of parts) kept.delete(rank)
    },
    checkpoint: () => position && checkpointOf(parts, position),
    get bytes() {
      return bytes
    },
    get sentBytes() {
      return sentBytes
    },
  }
}

/** Into the memory of the copy before, where there is one. */
function copied(values: Numbers, before: Numbers | undefined): Numbers {
  if (!before) return values.slice()
  before.set(values)
  return before
}

function checkpointOf(parts: readonly CopiedPart[], position: Position): Checkpoint {
  const { step, seed, data, norms, scalars = {} } = position
  const byTensor = new Map<string, CopiedPart[]>()
  for (const part of parts) byTensor.set(part.shard.tensor, [...(byTensor.get(part.shard.tensor) ?? []), part])
  const dims = (name: string): readonly Dim[] => byTensor.get(name)?.[0].shard.dims ?? []
  const fill: Checkpoint['fill'] = (name, targets) => {
    const of = byTensor.get(name) ?? []
    for (const part of of) {
      const values = findCopy(part)
      if (values) for (const target of targets) copyShared(part.shard, values, target, target.values)
    }
    return of.flatMap(damageOf).map(({ message }) => message)
  }
  return {
    ...{ step, seed, ...(data && { data }), ...(norms && { norms }), scalars },
    ...{ run: 'copied', line: [], files: [], fill },
    tensors: new Map([...byTensor.keys()].map(name => [name, dims(name)])),
    damages: () => parts.flatMap(damageOf),
    tensor(name) {
      const whole = wholeOf(dims(name))
      const wrong = fill(name, [whole])
      if (wrong.length > 0) throw new Error(wrong.join('; '))
      return whole.values
    },
    job: () => null,
    tokenizer: () => undefined,
    texts: () => ({}),
  }
}

const findCopy = ({ keepers, kept }: CopiedPart): Numbers | undefined => {
  const keeper = keepers.find(rank => kept.has(rank))
  return keeper === undefined ? undefined : kept.get(keeper)
}

/** Why nobody can go on from a part: it is lost, or spoilt. */
function damageOf(part: CopiedPart): Damage[] {
  const { tensor, rank } = part.shard
  try {
    const copy = findCopy(part)
    if (!copy) throw new Error(lossOf(part))
    requireFinite(tensor, copy)
    return []
  } catch (e) {
    return [{ file: 'memory', tensor, rank, message: e instanceof Error ? e.message : String(e) }]
  }
}

const lossOf = ({ shard, keepers }: CopiedPart): string =>
  keepers.length > 1
    ? `a shard of ${shard.tensor} was held only by ranks ${keepers.join(' and ')}, and was lost with them`
    : `a shard of ${shard.tensor} was held only by rank ${keepers[0]}, and was lost with it`
