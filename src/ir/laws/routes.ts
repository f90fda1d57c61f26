/**
 * T1 to T3 and R1 for what has rows. Rows are ragged: how many a rank has is known only when tokens have chosen. Per axis they are
 * *shared* (ranks hold different experts, and their rows come from all their tokens), *apart* (ranks hold the same experts and
 * the rows of their own tokens, so what they count is a part of the count) or *alike* (ranks hold the same rows). The counts
 * tell which: experts are split over axes that share, counts are partial over those that are apart.
 */
import { type Axis, type Combine, type Layout, sizeOfAll, splitOf } from '../../base/index.js'
import { type Compute, type InstrOf, isRouted } from '../instr.js'
import { showShaped } from '../text/codec.js'
import { unblocked } from './blocks.js'
import { scalesOf } from './codes.js'
import { clause } from './phrases.js'
import { axesThatMatter, type Case, dimsSplitBy, namesOf, type Type } from './type.js'

type RoutedMove = InstrOf<'dispatch' | 'combine' | 'all-dispatch' | 'all-combine'>
type Scaled = InstrOf<'scaledExpertContract' | 'scaledExpertWeightGrad'>
type RoutedInstr = RoutedMove | Scaled | InstrOf<'rowsOf' | 'expertContract' | 'expertWeightGrad'>

type Standing = 'shared' | 'apart' | 'alike'
type Standings = ReadonlyMap<Axis, Standing>
type Answer = readonly Type[] | undefined

const rules: { readonly [K in RoutedInstr['kind']]: (of: Case<InstrOf<K>>) => Answer } = {
  rowsOf,
  dispatch: dispatched,
  combine: combined,
  'all-dispatch': dispatched,
  'all-combine': combined,
  expertContract: multiplied,
  expertWeightGrad: weighed,
  scaledExpertContract: of => (scaledAlike(of) ? multiplied(of) : undefined),
  scaledExpertWeightGrad: of => (scaledAlike(of) ? weighed(of) : undefined),
}

export const hasRows = (instr: Case['instr']): instr is RoutedInstr => Object.hasOwn(rules, instr.kind)

/** The types of the results, or nothing where a finding says why there are none. */
export const routedTypes = (of: Case<RoutedInstr>): Answer =>
  (rules[of.instr.kind] as (of: Case<RoutedInstr>) => Answer)(of) // the table is total, so the rule fits its kind

const said = (standing: Standing) => clause(`.standing/${standing}`)

const sizeIn = ({ dims }: Type, name: string): number => dims.find(dim => dim.name === name)?.size ?? 1
const same = (a: readonly Axis[], b: readonly Axis[]): boolean => a.join() === b.join()

/** The claimed type with sizes and splits of the first of these operands that has a dim; rows as they are claimed. */
function like(claimed: Type, operands: readonly Type[], partial: Layout['partial'] = {}): Type {
  const owner = (name: string) => operands.find(type => namesOf(type).includes(name)) ?? claimed
  const dims = claimed.dims.map(({ name }) => ({ name, size: sizeIn(owner(name), name) }))
  const splits = dims.map(({ name }) => [name, splitOf(owner(name).layout, name)] as const)
  const kept = Object.fromEntries(splits.filter(([, axes]) => axes.length > 0))
  return { dtype: claimed.dtype, dims, layout: { splits: kept, partial } }
}

/** How ranks stand to each other, from the rows they hold and what they have counted. */
function standings({ program, say }: Case, rows: Type, counts: Type): Standings | undefined {
  const found = new Map<Axis, Standing>()
  for (const axis of axesThatMatter(program.mesh)) {
    const split = splitOf(rows.layout, 'row').includes(axis)
    const experts = splitOf(counts.layout, 'expert').includes(axis)
    const part = counts.layout.partial[axis] === 'sum'
    if (split !== (experts || part) || (experts && part)) {
      say('T1', clause('R/counts', { axis, type: showShaped(rows), counts: showShaped(counts) }))
      return undefined
    }
    found.set(axis, experts ? 'shared' : part ? 'apart' : 'alike')
  }
  return found
}

/** A rank that sees the choices of others makes the rows of its own experts; one that does not has what it has. */
function rowsOf(of: Case<InstrOf<'rowsOf'>>): Answer {
  const {
    program,
    instr,
    operands: [choice],
    claimed,
    say,
  } = of
  const [to, from, counts] = claimed
  const at = standings(of, from, counts)
  if (!at) return undefined
  for (const [axis, standing] of at) {
    const [split, ...more] = dimsSplitBy(choice.layout, axis)
    if (choice.layout.partial[axis] || more.length > 0 || split === 'choice')
      return void say('T1', clause('T/is', { ref: instr.ins[0], type: showShaped(choice) }))
    if ((split !== undefined) !== (standing === 'apart'))
      return void say('T1', clause(split ? 'R/choices-split' : 'R/choices-whole', { axis, standing: said(standing) }))
  }
  const experts = sizeIn(counts, 'expert')
  const worst = sizeIn(choice, 'batch') * sizeIn(choice, 'seq') * Math.min(sizeIn(choice, 'choice'), experts)
  const room = sizeIn(from, 'row')
  if (room < worst && !instr.guarded) say('R1', clause('R/room', { worst, room }))
  if (experts * sizeOfAll(program.mesh, splitOf(counts.layout, 'expert')) < sizeIn(choice, 'choice'))
    return void say('T3', clause('R/few', { choices: sizeIn(choice, 'choice'), experts }))
  return [like(to, [choice]), from, counts]
}

/** The group of a collective is who shares the experts, in the order in which these are split. */
function meetsRight({ program, instr, say }: Case<RoutedInstr>, counts: Type): boolean {
  const matters = axesThatMatter(program.mesh)
  const group = isRouted(instr) ? instr.group.axes.filter(axis => matters.includes(axis)) : []
  const owners = splitOf(counts.layout, 'expert')
  if (same(group, owners)) return true
  say('T1', clause('R/group', { owners: owners.join(' '), group: group.join(' ') }))
  return false
}

/** Tokens lie with their routes: cut over all axes but those on which ranks hold the same rows. */
function tokensRight({ say }: Case<RoutedInstr>, tokens: Type, at: Standings): boolean {
  for (const [axis, standing] of at) {
    const cut = dimsSplitBy(tokens.layout, axis).some(dim => dim === 'batch' || dim === 'seq')
    if (cut === (standing !== 'alike')) continue
    say('T1', clause('R/tokens', { axis, standing: said(standing), type: showShaped(tokens) }))
    return false
  }
  return true
}

/** How ranks stand to each other, where rows, tokens and those who meet agree on it. */
function agreedStandings(of: Case<RoutedMove>): Standings | undefined {
  const [, to, from, counts] = of.operands
  const at = standings(of, from, counts)
  return at && meetsRight(of, counts) && tokensRight(of, to, at) ? at : undefined
}

function dispatched(of: Case<InstrOf<'dispatch' | 'all-dispatch'>>): Answer {
  const {
    instr,
    operands: [x, to, from],
    claimed,
    say,
  } = of
  const at = agreedStandings(of)
  if (!at) return undefined
  for (const dim of ['batch', 'seq'])
    if (!same(splitOf(x.layout, dim), splitOf(to.layout, dim)) || sizeIn(x, dim) !== sizeIn(to, dim))
      return void say('T1', clause('R/routes', { ref: instr.ins[0], type: showShaped(x), routes: showShaped(to) }))
  const partial = passing(of, x, at)
  return partial && [like(claimed[0], [from, x], partial)]
}

function combined(of: Case<InstrOf<'combine' | 'all-combine'>>): Answer {
  const {
    instr,
    operands: [rows, to, from],
    claimed,
    say,
  } = of
  const at = agreedStandings(of)
  if (!at) return undefined
  if (!same(splitOf(rows.layout, 'row'), splitOf(from.layout, 'row')) || sizeIn(rows, 'row') !== sizeIn(from, 'row'))
    return void say('T1', clause('R/routes', { ref: instr.ins[0], type: showShaped(rows), routes: showShaped(from) }))
  const partial = passing(of, rows, at)
  return partial && [like(claimed[0], [to, rows], partial)]
}

/** A partial sum passes where ranks hold the same rows. */
function passing({ instr, say }: Case<RoutedInstr>, x: Type, at: Standings): Layout['partial'] | undefined {
  for (const [axis, combine] of Object.entries(x.layout.partial))
    if (combine !== 'sum' || at.get(axis as Axis) !== 'alike')
      // keys of a layout are axes
      return void say('T1', clause('T/is', { ref: instr.ins[0], type: showShaped(x) }))
  return x.layout.partial
}

/** On an axis where ranks hold the same rows a product is one like any other: at most one dim is split. */
function ordinary(of: Case<Compute>, axis: Axis, [a, b]: readonly [Type, Type]): Combine | undefined | 'refused' {
  const { claimed, say } = of
  const split = [...new Set([a, b].flatMap(({ layout }) => dimsSplitBy(layout, axis)))]
  const partial = [a, b].filter(({ layout }) => layout.partial[axis])
  const refuse = () => {
    say('T1', clause('R/both', { axis, type: showShaped(a), other: showShaped(b) }))
    return 'refused' as const
  }
  if (split.length + partial.length > 1) return refuse()
  if (partial.length === 1) return partial[0].layout.partial[axis] === 'sum' ? 'sum' : refuse()
  if (split.length === 0) return undefined
  const halves = [a, b].filter(type => namesOf(type).includes(split[0]))
  if (!halves.every(({ layout }) => splitOf(layout, split[0]).includes(axis))) return refuse()
  return namesOf(claimed[0]).includes(split[0]) ? undefined : 'sum'
}

/** Shared dims of the two factors have one size; each axis gives the result a partial sum, or none. */
function product(of: Case<Compute>, factors: readonly [Type, Type], at: Standings): Layout['partial'] | undefined {
  const [a, b] = factors
  const uneven = namesOf(a).find(name => namesOf(b).includes(name) && sizeIn(a, name) !== sizeIn(b, name))
  if (uneven !== undefined)
    return void of.say('T3', clause('R/sizes', { dim: uneven, size: sizeIn(a, uneven), other: sizeIn(b, uneven) }))
  const partial: Partial<Record<Axis, Combine>> = {}
  for (const [axis, standing] of at) {
    const combine = standing === 'alike' ? ordinary(of, axis, factors) : undefined
    if (combine === 'refused') return undefined
    if (combine) partial[axis] = combine
  }
  return partial
}

/** Of codes: each has the scale of its block, which lies as it does, and of which nothing is missing. */
function scaledAlike(of: Case<Scaled>): boolean {
  const { operands } = unblocked(of) ?? {}
  if (!operands) return false
  for (const [codes, scale] of scalesOf[of.instr.kind]) {
    const type = operands[scale]
    const elsewhere = namesOf(type).some(dim => !same(splitOf(type.layout, dim), splitOf(operands[codes].layout, dim)))
    if (!elsewhere && Object.keys(type.layout.partial).length === 0) continue
    const lies = { type: showShaped(type), codes: showShaped(operands[codes]) }
    of.say('T1', clause('R/codes', { ref: of.instr.ins[scale], ...lies }))
    return false
  }
  return true
}

function multiplied(of: Case<InstrOf<'expertContract' | 'scaledExpertContract'>>): Answer {
  const {
    instr,
    operands: [rows, counts, w],
    claimed,
    say,
  } = of
  const at = standings(of, rows, counts)
  if (!at) return undefined
  if (
    !same(splitOf(w.layout, 'expert'), splitOf(counts.layout, 'expert')) ||
    sizeIn(w, 'expert') !== sizeIn(counts, 'expert')
  )
    return void say('T1', clause('R/counted', { ref: instr.ins[2], type: showShaped(w), counts: showShaped(counts) }))
  for (const [axis, standing] of at) {
    const lies = standing === 'alike' || (!w.layout.partial[axis] && !rows.layout.partial[axis])
    const cut = dimsSplitBy(w.layout, axis).filter(dim => dim !== 'expert')
    if (!lies || (standing !== 'alike' && cut.length > 0))
      return void say(
        'T1',
        clause('R/weights', { axis, standing: said(standing), ref: instr.ins[2], type: showShaped(w) }),
      )
  }
  const partial = product(of, [rows, w], at)
  return partial && [like(claimed[0], [rows, w], partial)]
}

/** Ranks that share the experts have the whole gradient of theirs; ranks that are apart have a part of it. */
function weighed(of: Case<InstrOf<'expertWeightGrad' | 'scaledExpertWeightGrad'>>): Answer {
  const {
    instr,
    operands: [rows, drows, counts],
    claimed,
    say,
  } = of
  const at = standings(of, rows, counts)
  if (!at) return undefined
  if (!same(splitOf(rows.layout, 'row'), splitOf(drows.layout, 'row')))
    return void say(
      'T1',
      clause('T/are', {
        ...{ ref: instr.ins[0], type: showShaped(rows) },
        ...{ other: instr.ins[1], beside: showShaped(drows) },
      }),
    )
  const partial = product(of, [rows, drows], at)
  const apart = [...at].flatMap(([axis, standing]) => (standing === 'apart' ? [[axis, 'sum'] as const] : []))
  return partial && [like(claimed[0], [counts, rows, drows], { ...partial, ...Object.fromEntries(apart) })]
}
