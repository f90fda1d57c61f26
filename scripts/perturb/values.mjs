/**
 * Perturbations of one fixture file: which of its values to change, and to what. A value is named by its path in the file
 * (`cases.0.lr`). All elements of an array are compared by one loop, so long arrays are sampled: first, last, some at random.
 */

/** Elements of a long array that are perturbed besides the first and the last. */
const sampled = { numbers: 2, others: 4 }
/** Arrays up to this length are perturbed throughout. */
const short = { numbers: 4, others: 8 }

/** A generator of random integers below a bound (mulberry32). */
export function randomFrom(seed) {
  let state = seed >>> 0
  return bound => {
    state = (state + 0x6d2b79f5) >>> 0
    let bits = Math.imul(state ^ (state >>> 15), state | 1)
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61)
    return ((bits ^ (bits >>> 14)) >>> 0) % bound
  }
}

const isTree = value => typeof value === 'object' && value !== null

const isCase = value => isTree(value) && !Array.isArray(value)

/** Indices of a sample: all of a short array; of a longer one its ends and some between them. */
function sample(length, kind, random) {
  if (length <= short[kind]) return Array.from({ length }, (_, i) => i)
  const chosen = new Set([0, length - 1])
  while (chosen.size < 2 + sampled[kind]) chosen.add(1 + random(length - 2))
  return [...chosen].sort((a, b) => a - b)
}

function* leavesOf(tree, path, random) {
  const entries = Object.entries(tree)
  const kind = entries.every(([, value]) => typeof value === 'number') && Array.isArray(tree) ? 'numbers' : 'others'
  const isList = Array.isArray(tree) || entries.length > 100 // a vocabulary is a list too
  // Entries of a list of cases come in any order.
  if (Array.isArray(tree) && !tree.some(isCase)) yield { tree, key: undefined, path }
  const chosen = isList ? sample(entries.length, kind, random).map(i => entries[i]) : entries
  for (const [key, value] of chosen) {
    const below = [...path, key]
    if (isTree(value)) yield* leavesOf(value, below, random)
    else yield { tree, key, path: below }
  }
}

/** Values that stand at the same place of other entries: `cases.*.mode`. */
function alternatives(tree, path = [], found = new Map()) {
  for (const [key, value] of Object.entries(tree)) {
    const below = [...path, Array.isArray(tree) ? '*' : key]
    if (isTree(value)) alternatives(value, below, found)
    else if (typeof value === 'string') {
      const place = below.join('.')
      if (!found.has(place)) found.set(place, new Set())
      found.get(place).add(value)
    }
  }
  return found
}

function otherString(value, place, others) {
  const allowed = [...(others.get(place) ?? [])].filter(other => other !== value)
  if (allowed.length > 0) return allowed[0]
  const number = Number(value)
  return value !== '' && Number.isFinite(number) ? String(number + 1) : `${value}x`
}

/** What a number is changed to: an integer by one up and down, another by a hundredth and in its sign. */
function otherNumbers(value, isInteger) {
  if (isInteger) return [value + 1, value - 1]
  if (value === 0) return [0.01]
  return [value * 1.01, -value]
}

function otherValues({ tree, key, path }, others) {
  const value = tree[key]
  if (value === null) return [0]
  if (typeof value === 'boolean') return [!value]
  if (typeof value === 'number') {
    const alike = Array.isArray(tree) ? tree.filter(other => typeof other === 'number') : [value]
    return otherNumbers(value, alike.every(Number.isInteger))
  }
  const place = path.map(part => (/^\d+$/.test(part) ? '*' : part)).join('.')
  return [otherString(value, place, others)]
}

/** The first two neighbors of a list that differ, swapped. */
function swapped(list) {
  const i = list.findIndex((value, at) => at + 1 < list.length && !isEqual(value, list[at + 1]))
  return i < 0 ? undefined : [...list.slice(0, i), list[i + 1], list[i], ...list.slice(i + 2)]
}
const isEqual = (a, b) => JSON.stringify(a) === JSON.stringify(b)

/** Of a JSON document, a function that writes it with one part replaced. */
function* jsonChanges(text, random) {
  const document = JSON.parse(text)
  const others = alternatives(document)
  for (const leaf of leavesOf(document, [], random)) {
    const { tree, key, path } = leaf
    if (key === undefined) {
      const order = swapped(tree)
      if (order) yield { path, change: 'order', bytes: () => withList(document, tree, order) }
      continue
    }
    const before = tree[key]
    for (const value of otherValues(leaf, others))
      yield { path, change: `${show(before)} -> ${show(value)}`, bytes: () => withValue(document, tree, key, value) }
  }
}
const show = value => JSON.stringify(value).slice(0, 40)

/** A document as JSON, in which a 0 keeps its sign. */
export const print = document =>
  JSON.stringify(document, (_, value) => (Object.is(value, -0) ? negativeZero : value)).replaceAll(
    JSON.stringify(negativeZero),
    '-0',
  )
const negativeZero = '\u0001-0'

function withValue(document, tree, key, value) {
  const before = tree[key]
  tree[key] = value
  const text = print(document)
  tree[key] = before
  return Buffer.from(text)
}

function withList(document, list, order) {
  const before = [...list]
  list.splice(0, list.length, ...order)
  const text = print(document)
  list.splice(0, list.length, ...before)
  return Buffer.from(text)
}

/** Cells of a schedule: another action of the table in its place, and two that change places. */
function* tableChanges(text, random) {
  const rows = text.split('\n').map(line => line.split(','))
  const cells = rows.flatMap((row, r) => row.flatMap((cell, c) => (cell.trim() === '' ? [] : [[r, c]])))
  const write = changes => {
    const copy = rows.map(row => [...row])
    for (const [[r, c], cell] of changes) copy[r][c] = cell
    return Buffer.from(copy.map(row => row.join(',')).join('\n'))
  }
  for (const i of sample(cells.length, 'others', random)) {
    const [r, c] = cells[i]
    const [r2, c2] = cells.find(([y, x]) => rows[y][x] !== rows[r][c]) ?? [r, c]
    const [cell, other] = [rows[r][c], rows[r2][c2]]
    const path = [`${r}`, `${c}`]
    yield { path, change: `${cell} -> ${other}`, bytes: () => write([[[r, c], other]]) }
    yield { path, change: `${cell} -> idle`, bytes: () => write([[[r, c], '']]) }
    const next = cells[i + 1]
    if (next?.[0] === r && rows[r][next[1]] !== cell)
      yield {
        path,
        change: 'order',
        bytes: () =>
          write([
            [[r, c], rows[r][next[1]]],
            [next, cell],
          ]),
      }
  }
}

/** Bytes of an element, and which of its mantissa's bits is worth 2^-6 of it. */
const elements = { F64: [8, 46], F32: [4, 17], F16: [2, 4], BF16: [2, 1] }

function* tensorChanges(bytes, random) {
  const size = Number(bytes.readBigUInt64LE(0))
  const header = JSON.parse(bytes.subarray(8, 8 + size).toString())
  for (const [name, { dtype, data_offsets }] of Object.entries(header)) {
    if (name === '__metadata__') continue
    const [width, bit] = elements[dtype]
    const [begin, end] = data_offsets.map(offset => 8 + size + offset)
    for (const i of sample((end - begin) / width, 'numbers', random))
      for (const [change, at] of [['1/64', bit], ['sign', 8 * width - 1]]) // biome-ignore format: a table
        yield { path: [name, `${i}`], change, bytes: () => flipped(bytes, begin + i * width, at) }
  }
}

function flipped(bytes, offset, bit) {
  const copy = Buffer.from(bytes)
  copy[offset + (bit >> 3)] ^= 1 << (bit & 7)
  return copy
}

function* byteChanges(bytes, random) {
  for (const i of sample(bytes.length, 'others', random))
    yield { path: [`${i}`], change: 'a bit', bytes: () => flipped(bytes, i, random(8)) }
}

/** All perturbations of a file; none of a page for people. */
export function changesOf(file, bytes, random) {
  if (file.endsWith('.md')) return []
  if (file.endsWith('.json')) return [...jsonChanges(bytes.toString(), random)]
  if (file.endsWith('.csv')) return [...tableChanges(bytes.toString(), random)]
  if (file.endsWith('.safetensors')) return [...tensorChanges(bytes, random)]
  return [...byteChanges(bytes, random)]
}
