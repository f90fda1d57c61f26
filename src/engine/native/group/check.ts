/**
 * What is wrong with a call on a group. Kernels trust the addresses and lengths in their commands, so a call is checked
 * before any command is written, and everything wrong with it is said at once.
 */
import { elementTypes, error, ProblemsError, type Rank } from '../../../base/index.js'
import { elementBytes } from '../kernels/dtypes.js'
import { combines } from '../lower/commands.js'
import type { Combine, Tensor } from './collectives.js'

/** Throws all problems of a call, if there are any. */
export function refuse(call: string, problems: readonly string[]): void {
  if (problems.length > 0) throw new ProblemsError(problems.map(message => error('group/call', call, message)))
}

const isCount = (n: unknown, least = 0): n is number => Number.isSafeInteger(n) && (n as number) >= least // just tested

export const countProblems = (what: string, n: unknown, least = 0): string[] =>
  isCount(n, least) ? [] : [`${what} is ${n}, not an integer of at least ${least}`]

export const rankProblems = (rank: unknown, ranks: number): string[] =>
  isCount(rank) && rank < ranks ? [] : [`there is no rank ${rank} in a group of ${ranks}`]

export function memberProblems(members: readonly Rank[], ranks: number): string[] {
  const twice = members.find((rank, i) => members.indexOf(rank) !== i)
  return [
    ...(members.length === 0 ? ['a group needs a member'] : []),
    ...members.flatMap(rank => rankProblems(rank, ranks)),
    ...(twice === undefined ? [] : [`rank ${twice} is a member twice`]),
  ]
}

const typeProblems = (name: string, dtype: unknown): string[] =>
  elementTypes.some(known => known === dtype) ? [] : [`${name} is ${dtype}, not one of ${elementTypes.join(', ')}`]

/** A tensor to be made. */
export const shapeProblems = (dtype: unknown, length: unknown): string[] => [
  ...typeProblems('dtype', dtype),
  ...countProblems('length', length),
]

/** A tensor is a plain value, so anybody can write one down: it must lie inside the heap, where its elements can begin. */
export function tensorProblems(name: string, tensor: Tensor, heapBytes: number): string[] {
  const { dtype, length, offset } = tensor ?? {}
  const wrong = [
    ...typeProblems(name, dtype),
    ...countProblems(`the length of ${name}`, length),
    ...countProblems(`the offset of ${name}`, offset),
  ]
  if (wrong.length > 0) return wrong
  const width = elementBytes(dtype)
  const end = offset + length * width
  return [
    ...(offset % width === 0 ? [] : [`${name} begins at byte ${offset}, not a multiple of ${width} (${dtype})`]),
    ...(end <= heapBytes ? [] : [`${name} ends at byte ${end} of a heap of ${heapBytes}`]),
  ]
}

/** What a collective is asked to do. */
export interface CollectiveRequest {
  readonly x: Tensor
  readonly out?: Tensor
  /** x times the first is as long as out times the second. */
  readonly parts?: readonly [x: number, out: number]
  /** x is cut into so many parts. */
  readonly cut?: number
  /** Which member is the root. */
  readonly root?: Rank
  readonly combine?: Combine
  /** counts[j][i] elements go from member j to member i. */
  readonly counts?: readonly (readonly number[])[]
}

/** The problems of a collective among so many members. */
export function collectiveProblems(asked: CollectiveRequest, members: number, heapBytes: number): string[] {
  const { x, out, root, combine } = asked
  const lying = [
    ...tensorProblems('x', x, heapBytes),
    ...(out === undefined ? [] : tensorProblems('out', out, heapBytes)),
  ]
  const among = root === undefined || (isCount(root) && root < members)
  return [
    ...lying,
    ...(among ? [] : [`there is no member ${root} in a group of ${members}`]),
    ...(combine === undefined || combines.some(known => known === combine)
      ? []
      : [`combine is ${combine}, not one of ${combines.join(', ')}`]),
    ...(lying.length === 0 && out !== undefined ? pairProblems({ ...asked, out }, members) : []),
  ]
}

function pairProblems(
  { x, out, parts, cut = 1, counts }: CollectiveRequest & { out: Tensor },
  members: number,
): string[] {
  const [ofX, ofOut] = parts ?? [1, 1]
  return [
    ...(x.length % cut === 0 ? [] : [`${x.length} elements cannot be cut into ${cut} parts; see allToAllUneven`]),
    ...(x.dtype === out.dtype ? [] : [`x is ${x.dtype}, but out is ${out.dtype}`]),
    ...(counts ? unevenProblems(counts, { x, out, members }) : []),
    ...(counts || x.length * ofX === out.length * ofOut
      ? []
      : [`x of ${x.length} elements asks for an out of ${(x.length * ofX) / ofOut}, not ${out.length}`]),
  ]
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0)

function unevenProblems(
  counts: readonly (readonly number[])[],
  { x, out, members }: { readonly x: Tensor; readonly out: Tensor; readonly members: number },
): string[] {
  if (counts.length !== members || counts.some(row => row.length !== members))
    return [`counts must have ${members} rows of ${members}`]
  const odd = counts.flatMap((row, j) => row.flatMap((n, i) => countProblems(`counts[${j}][${i}]`, n)))
  if (odd.length > 0) return odd
  return counts.flatMap((row, j) => {
    const [sent, received] = [sumOf(row), sumOf(counts.map(other => other[j]))]
    return [
      ...(sent <= x.length ? [] : [`member ${j} has ${x.length} elements, not ${sent} to send`]),
      ...(received <= out.length ? [] : [`member ${j} has room for ${out.length} elements, not ${received}`]),
    ]
  })
}
