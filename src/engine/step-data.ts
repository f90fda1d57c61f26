/**
 * The data of a step, checked before a number of it is used: an id outside the vocabulary would be looked up as zeros, and
 * a learning rate that is no number would make every parameter one, without a word.
 */
import { documentRanks, elementsOf, error, type Mesh, type Problem, ProblemsError } from '../base/index.js'
import { inputsOf, laid, ordersOf, wholeDims } from '../geometry/index.js'
import type { Buffer, Instr, Program, Segment } from '../ir/index.js'
import type { StepData } from './runner.js'

/** Throws all that is wrong with the data of a step, or gives it back with every input asked for once. */
export function stepCheckOf(program: Program): (data: StepData) => StepData {
  const sizes = inputsOf(program)
    .filter(({ name }) => !known.includes(name))
    .map(input => ({ ...input, elements: elementsOf(input.dims) }))
  const limits = idLimits(program)
  const trains = program.inputs.some(({ name }) => name === 'lr')
  return data => {
    if (typeof data?.inputs !== 'function')
      throw new ProblemsError([
        error(
          'step/data',
          'inputs',
          `expected a function from the name of an input to its values, got ${typeof data?.inputs}`,
          `the inputs are ${sizes.map(({ name }) => name).join(', ')}; syntheticData and batchAt make such functions`,
        ),
      ])
    const values = new Map(sizes.map(({ name }) => [name, data.inputs(name)]))
    const problems = [
      ...(trains ? lrProblems(data.lr) : []),
      ...stepProblems(data.step),
      ...sizes.flatMap(({ name, dtype, dims, every, elements }) => {
        const given = values.get(name)
        if (given?.length !== elements) return [wrong(name, `${given?.length ?? 'no'} values, not ${elements}`)]
        if (name === 'positions') return placeProblems(name, given, { seq: dims.at(-1)?.size ?? 1, every })
        // What is a layer's own is named after it.
        const limit = limits.get(name) ?? limits.get(name.slice(name.lastIndexOf('.') + 1))
        const ids = dtype === 'i32' ? idProblems(name, given, limit) : []
        const choices = dims.at(-1)?.name === 'choice' ? dims.at(-1)!.size : 1
        return ids.length > 0 ? ids : twiceProblems(name, given, choices)
      }),
    ]
    if (problems.length > 0) throw new ProblemsError(problems)
    const lying = inOrder(program, values)
    const { lr, step, limit = Number.POSITIVE_INFINITY } = data
    return { inputs: name => (name === 'limit' ? [limit] : (lying.get(name) ?? data.inputs(name))), lr, step }
  }
}

/** Inputs that no data holds: what a step is told, and the order of tokens, which follows from their positions. */
const known = ['lr', 'limit', 'order']

type Values = ReadonlyMap<string, ArrayLike<number>>

/** The orders of all sequences of a step, where tokens have one. */
export function ordersIn(program: Program, inputs: StepData['inputs']): Int32Array | undefined {
  const order = program.inputs.find(({ name }) => name === 'order')
  return order && ordersOf(inputs('positions'), order.dims.at(-1)?.size ?? 1, documentRanks(program.mesh))
}

/** Inputs as tokens lie: data comes as tokens follow each other, the same for every plan. */
function inOrder(program: Program, given: Values): Values {
  const orders = ordersIn(program, name => given.get(name) ?? [])
  if (!orders) return given
  const lying = inputsOf(program).flatMap(({ name, dims }) => {
    const values = given.get(name)
    return values ? [[name, laid(values, dims, orders)] as const] : []
  })
  return new Map([...lying, ['order', orders]])
}

const wrong = (input: string, message: string): Problem => error('step/data', `inputs.${input}`, message)

const lrProblems = (lr: number): Problem[] =>
  Number.isFinite(lr) && lr >= 0 ? [] : [error('step/data', 'lr', `${lr} is not a finite number of at least 0`)]

const stepProblems = (step: number): Problem[] =>
  Number.isSafeInteger(step) && step >= 0 ? [] : [error('step/data', 'step', `${step} is not an integer of at least 0`)]

/** What the ids of an input choose among. */
interface Limit {
  readonly dim: string
  readonly size: number
  /** An id below 0 is ignored. */
  readonly mayIgnore: boolean
}

/** Names the first id that is wrong, and how many there are. */
function idProblems(name: string, ids: ArrayLike<number>, limit: Limit | undefined): Problem[] {
  const least = limit && !limit.mayIgnore ? 0 : -(2 ** 31)
  const most = limit ? limit.size - 1 : 2 ** 31 - 1
  let [first, count] = [-1, 0]
  for (let i = 0; i < ids.length; i++) {
    if (Number.isInteger(ids[i]) && ids[i] >= least && ids[i] <= most) continue
    if (count++ === 0) first = i
  }
  if (count === 0) return []
  const more = count > 1 ? ` (and ${count - 1} more like it)` : ''
  const ignored = limit?.mayIgnore ? ', or below 0 where ignored' : ''
  const range = limit ? `${limit.dim} ${limit.size}: ids are 0 to ${most}${ignored}` : '32-bit integers'
  return [wrong(name, `${ids[first]} at ${first}${more} is outside ${range}`)]
}

/** Names the first token that chooses an expert twice: there is no room for that, since none does by itself. */
function twiceProblems(name: string, ids: ArrayLike<number>, choices: number): Problem[] {
  for (let from = 0; choices > 1 && from < ids.length; from += choices)
    for (let i = from + 1; i < from + choices; i++)
      for (let j = from; j < i; j++)
        if (ids[i] === ids[j]) return [wrong(name, `token ${from / choices} chooses expert ${ids[i]} twice`)]
  return []
}

interface Sequences {
  readonly seq: number
  /** Documents begin at multiples of it. */
  readonly every: number | undefined
}

/** Places in documents are counted: from 0 where one begins, and at the latest where a sequence does. */
function placeProblems(name: string, places: ArrayLike<number>, { seq, every = 1 }: Sequences): Problem[] {
  for (let i = 0; i < places.length; i++) {
    const next = i % seq === 0 ? 0 : places[i - 1] + 1
    if (places[i] !== 0 && places[i] !== next)
      return [wrong(name, `${places[i]} at ${i} is neither ${next}, the next in its document, nor 0, where one begins`)]
    if (places[i] === 0 && i % every !== 0)
      return [wrong(name, `a document begins at ${i}, but they begin at multiples of ${every}`)]
  }
  return []
}

/** The limit of each input of ids: `embed` looks ids up in a table, `pick` looks labels up among logits. */
function idLimits({ mesh, segments }: Program): Map<string, Limit> {
  const limits = new Map<string, Limit>()
  for (const segment of Object.values(segments))
    for (const instr of segment.instrs) {
      const lookup = lookupOf(instr)
      if (!lookup) continue
      const role = segment.roles[segment.buffers[lookup.ids].role].name
      const dim = chosenDim(mesh, segment, lookup)
      if (role.is === 'input' && dim)
        limits.set(role.of, { dim: dim.name, size: dim.size, mayIgnore: lookup.mayIgnore })
    }
  return limits
}

interface Lookup {
  readonly ids: string
  readonly among: string
  readonly out: string
  readonly mayIgnore: boolean
}

function lookupOf(instr: Instr): Lookup | undefined {
  if (instr.kind === 'embed') return { ids: instr.ins[0], among: instr.ins[1], out: instr.outs[0], mayIgnore: false }
  if (instr.kind === 'chosen') return { ids: instr.ins[1], among: instr.ins[0], out: instr.outs[0], mayIgnore: false }
  if (instr.kind === 'pick') return { ids: instr.ins[1], among: instr.ins[0], out: instr.outs[0], mayIgnore: true }
  return undefined
}

/** The dim that the result no longer has, whole. */
function chosenDim(mesh: Mesh, { buffers }: Segment, { among, out }: Lookup) {
  const { dims, layout }: Buffer = buffers[among]
  const left = new Set(buffers[out].dims.map(({ name }) => name))
  return wholeDims(mesh, dims, layout).find(({ name }) => !left.has(name))
}
