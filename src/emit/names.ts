/**
 * Variable names of a segment's values in Python: those of the model. Where the program only numbers them (`x'1`, `d.gate.1`), a
 * value is named by the operation that made it or by what it is the gradient of.
 */
import { isOptimizer, opFacts } from '../base/index.js'
import { type Compute, type Instr, isCollective, isCompute, type Ref, type Segment } from '../ir/index.js'
import { identifier } from './python.js'

const becomes: Readonly<Record<string, string>> = {
  'all-gather': 'gathered',
  'reduce-scatter': 'scattered',
  'all-reduce': 'reduced',
  'all-to-all': 'exchanged',
  shift: 'received',
  move: 'moved',
  slice: 'shard',
}

/** Values of the program by the names that practitioners use. */
const fieldWords: Readonly<Record<string, string>> = {
  addend: 'partial',
  back: 'server.compressed',
  choice: 'expert.ids',
  codes: 'quantized',
  dealt: 'owned',
  home: 'returned',
  made: 'orthogonal',
  owned: 'reduced.shard',
  picked: 'target.logit',
  places: 'indices',
  rest: 'residual',
  routes: 'expert.rows',
  seen: 'projected',
  sent: 'compressed',
  taken: 'applied.steps',
  tops: 'topk.counts',
  units: 'scales',
  whole: 'full',
  wire: 'comm',
}

/** routes.from -> row.tokens, k.turn1 -> k.ring1 */
function inFieldWords(name: string): string {
  const known = name
    .replace(/\broutes[._]from\b/g, 'row.tokens')
    .replace(/\broutes[._]counts\b/g, 'tokens.per.expert')
    .replace(/\bturn(?=\d)/g, 'ring')
  return known.replace(/[A-Za-z]+/g, word => (Object.hasOwn(fieldWords, word) ? fieldWords[word] : word))
}

/** The value a version was made from: norm1'2 -> norm1 */
const versionless = (ref: Ref): string => ref.replace(/'\d+$/, '')

/**
 * The name of a result after the first: a gradient is called after its operand, a second gradient of parameters like the
 * first (`d.norm.weight`, `d.norm.bias`), what else there is after the first result (`attention.lse`).
 */
function furtherName(kind: Compute['kind'], i: number, first: string, ins: readonly string[]): string {
  const { ins: operands, outs } = opFacts[kind]
  // Of any number of alike results.
  if (i >= outs.length) return `${first}.${i}`
  const [gradientOf, firstOf] = [outs[i], outs[0]].map(name => name.replace(/^d/, ''))
  if (!outs[i].startsWith('d')) return `${first}.${outs[i]}`
  const operand = operands.indexOf(gradientOf)
  return operand < 0 ? first.replace(new RegExp(`${firstOf}$`), gradientOf) : `d.${ins[operand]}`
}

/** `given` names what the segment reads from frames that another segment wrote and named. */
export function namesOf(segment: Segment, given: ReadonlyMap<Ref, string>): ReadonlyMap<Ref, string> {
  const names = new Map<Ref, string>()
  const taken = new Set<string>()
  const name = (ref: Ref, wish: string) => {
    if (names.has(ref)) return
    const base = identifier(inFieldWords(wish))
    let free = base
    for (let n = 2; taken.has(free); n++) free = `${base}_${n}`
    taken.add(free)
    names.set(ref, free)
  }
  for (const [ref, wish] of given) name(ref, wish)
  for (const instr of segment.instrs) nameResults(instr, names, name)
  for (const ref of Object.keys(segment.buffers)) name(ref, ref)
  return names
}

function nameResults(instr: Instr, names: ReadonlyMap<Ref, string>, name: (ref: Ref, wish: string) => void): void {
  const known = (ref: Ref) => names.get(ref) ?? identifier(ref)
  if (isCompute(instr)) {
    for (const ref of instr.ins) name(ref, ref)
    const several = instr.outs.length > 1 && !isOptimizer(instr)
    for (const [i, ref] of instr.outs.entries())
      name(
        ref,
        i > 0 && several ? furtherName(instr.kind, i, known(instr.outs[0]), instr.ins.map(known)) : versionless(ref),
      )
  } else if (isCollective(instr) || instr.kind === 'slice') {
    const [ins, outs] = isCollective(instr) ? [instr.ins, instr.outs] : [[instr.in], [instr.out]]
    for (const ref of ins) name(ref, ref)
    for (const ref of outs) {
      const changed = ref !== versionless(ref)
      name(ref, changed ? `${versionless(ref)}.${becomes[instr.kind]}` : ref)
    }
  }
}
