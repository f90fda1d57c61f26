/** One rank that does what several would: its elements in the blocks that those have. */

/** The block an element is in, and its place in the line of that block. Where nothing is said of ways, all is one block. */
export function inBlock(
  sizes: readonly number[],
  ways: readonly number[] | undefined,
  element: number,
): [block: number, at: number] {
  if (!ways) return [0, element]
  let [rest, block, at, blocks, elements] = [element, 0, 0, 1, 1]
  for (let d = sizes.length - 1; d >= 0; d--) {
    const size = sizes[d] / ways[d]
    const index = rest % sizes[d]
    rest = (rest - index) / sizes[d]
    block += blocks * Math.floor(index / size)
    at += elements * (index % size)
    blocks *= ways[d]
    elements *= size
  }
  return [block, at]
}
