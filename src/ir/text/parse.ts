/**
 * The text form, read back. Every line begins with a word that says what it is; a line of a segment that begins
 * with `%` (or is a bare `wait %x`) is an instruction. The first line that cannot be read is thrown as a problem:
 * the lines after it may depend on it.
 */
import { type Axis, type Dim, dtypes, ProblemsError, scalarNames, stateNames } from '../../base/index.js'
import { alone, type Instr, type InstrKind } from '../instr.js'
import { type DType, type Init, noBytes, type Param, type Program, phases, type Role, type Step } from '../program.js'
import { readRole, resultNames, showRole } from '../role.js'
import { atMost, attributes, type Codec, count, counts, index, name, number, oneOf, readShaped, word } from './codec.js'
import { near, notJson, Unreadable, unreadable } from './phrases.js'
import { kindOf, readPeak, readSpace, spaceNamed } from './rooms.js'

/** Parses the text form of a program. The inverse of `print`. */
export function parse(text: string): Program {
  const draft = emptyDraft()
  text.split('\n').forEach((line, i) => {
    try {
      const words = wordsOf(line)
      if (words.length > 0) readLine(draft, words)
    } catch (error) {
      if (!(error instanceof Unreadable || error instanceof SyntaxError)) throw error
      const problem = error instanceof Unreadable ? error.problem : notJson(error)
      throw new ProblemsError([{ ...problem, line: i + 1, column: 1 }])
    }
  })
  return finish(draft)
}

/** Brackets and quotes hold a word together; one that is never closed would be skipped without a trace. */
function wordsOf(line: string): string[] {
  const word = /(?:\[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\]|"(?:[^"\\]|\\.)*"|[^\s"[])+/g
  const [stray] = line.replace(word, '').trim()
  if (stray !== undefined) unreadable('program/text/open', { found: stray })
  return line.match(word) ?? []
}

/** A value whose lists may still grow. */
type Growing<T> = T extends string | number | boolean
  ? T
  : T extends readonly (infer Item)[]
    ? Growing<Item>[]
    : { -readonly [K in keyof T]: Growing<T[K]> }

interface Draft {
  readonly program: Growing<Program>
  param?: Growing<Param>
  segment?: Growing<Program['segments'][string]>
  stream?: Growing<Program['streams'][number]>
}

const emptyDraft = (): Draft => ({
  program: {
    name: '',
    mesh: { axes: [] },
    microbatches: 0,
    stages: 0,
    blocks: [],
    params: [],
    inputs: [],
    results: { loss: {}, count: {}, normSquared: {} },
    segments: {},
    streams: [],
  },
})

const finish = (draft: Draft): Program => draft.program

type Reader = (draft: Draft, words: readonly string[]) => void

/** Lines that may stand anywhere. */
const readers: Readonly<Record<string, Reader>> = {
  program: ({ program }, words) => (program.name = word.read(only(words))),
  mesh: ({ program }, words) => (program.mesh.axes = dimsAlone([`[${words.join(' ')}]`]) as typeof program.mesh.axes), // names are checked by the laws
  zigzag({ program }, words) {
    const [cut, each, ...more] = words
    const [dim, axis, ...rest] = word.read(only([cut, ...more])).split('/')
    if (!dim || !axis || rest.length > 0) unreadable('program/text/zigzag')
    if (each !== undefined && each !== 'documents') unreadable('program/text/documents', { found: each })
    program.mesh.zigzag = { dim, axis: axis as Axis, ...(each && { documents: true }) } // checked by the laws
  },
  microbatches: ({ program }, words) => (program.microbatches = count.read(only(words))),
  stages: ({ program }, words) => (program.stages = count.read(only(words))),
  evaluates({ program }, words) {
    atMost(0, words)
    program.evaluates = true
  },
  block({ program }, [block, ...rest]) {
    const { kind, stage } = fields(rest, 'kind', 'stage')
    program.blocks.push({ name: word.read(block), kind: word.read(kind), stage: count.read(stage) })
  },
  input({ program }, [input, type, ...shape]) {
    const named = { name: word.read(input), dtype: dtype.read(type) }
    const every = shape.at(-1)?.startsWith('every=') ? shape.pop()!.slice('every='.length) : undefined
    const multiples = every === undefined ? {} : { every: count.read(every) }
    program.inputs.push({ ...named, ...growing(readShaped(shape)), ...multiples })
  },
  result: ({ program }, [result, ...places]) =>
    (program.results[oneOf(...resultNames).read(result)] = readPlaces(places)),
  scalar({ program }, [scalar, start, ...places]) {
    const read = { start: number.read(start), frames: readPlaces(places) }
    program.scalars = { ...program.scalars, [oneOf(...scalarNames).read(scalar)]: read }
  },
  /** f32 where no dtype is written. */
  param(draft, [param, ...rest]) {
    const [type, shape] = rest[0]?.startsWith('[') ? ['f32', rest] : [rest[0] ?? '', rest.slice(1)]
    const nowhere = () => ({ splits: {}, partial: {} })
    const dims = dimsAlone(shape)
    const layouts = { kept: nowhere(), state: nowhere() }
    draft.param = {
      name: word.read(param),
      dtype: dtype.read(type),
      dims,
      init: { kind: 'zeros' },
      ...layouts,
      frames: {},
    }
    draft.program.params.push(draft.param)
  },
  segment(draft, [segment, ...rest]) {
    const { phase, key } = fields(rest, 'phase', 'key?')
    const id = word.read(key || segment)
    if (Object.hasOwn(draft.program.segments, id)) unreadable('program/text/segment', { segment: id })
    draft.segment = { name: word.read(segment), phase: phaseOf.read(phase), roles: [], buffers: {}, instrs: [] }
    draft.program.segments[id] = draft.segment
    delete draft.stream
  },
  stream(draft, [pipeline, ...rest]) {
    const { streams } = draft.program
    if (count.read(pipeline) !== streams.length)
      unreadable('program/text/stream', { stream: streams.length, found: pipeline })
    draft.stream = {
      frames: [],
      resident: [],
      steps: [],
      arena: count.read(fields(rest, 'arena').arena),
      peak: noBytes(),
    }
    streams.push(draft.stream)
    delete draft.segment
  },
}

/** Lines below a `param`. */
const ofParam: Readonly<Record<string, (param: Growing<Param>, words: readonly string[]) => void>> = {
  init: (param, words) => (param.init = initOf(words)),
  frozen(param, words) {
    atMost(0, words)
    param.frozen = true
  },
  gradient: (param, words) => (param.gradient = dtype.read(only(words))),
  kept(param, words) {
    const { shape, inside } = readInside(words)
    param.kept = growing(readShaped(shape)).layout
    if (inside) param.keptInside = true
  },
  /** Of all that is as the parameter is; or, by its name, of one that is a tensor of its own. */
  state(param, [first = '', ...rest]) {
    if (first.startsWith('[')) param.state = growing(readShaped([first, ...rest])).layout
    else {
      const [type, ...shape] = rest
      const tensor = { dtype: dtype.read(type), ...growing(readShaped(shape)) }
      param.apart = { ...param.apart, [oneOf(...stateNames).read(first)]: tensor }
    }
  },
  held(param, [pipeline, ...rest]) {
    const {
      param: frame,
      grad,
      ...states
    } = fields(rest, 'param', 'grad?', ...stateNames.map(name => `${name}?` as const))
    const kept = stateNames.filter(name => states[name] !== '').map(name => [name, count.read(states[name])])
    const stream = count.read(pipeline)
    if (param.frames[stream]) unreadable('program/text/held', { stream, param: param.name })
    param.frames[stream] = {
      param: count.read(frame),
      ...(grad ? { grad: count.read(grad) } : {}),
      states: Object.fromEntries(kept),
    }
  },
}

/** `0:12 3:12`: on pipeline coordinates 0 and 3, in frame 12. */
const readPlaces = (places: readonly string[]): Record<number, number> =>
  Object.fromEntries(
    places.map(place => atMost(2, place.split(':'))).map(([stream, frame]) => [count.read(stream), count.read(frame)]),
  )

/** `inside`, where it is, is the last word. */
const readInside = (words: readonly string[]) =>
  words.at(-1) === 'inside' ? { shape: words.slice(0, -1), inside: true as const } : { shape: words }

const growing = (shaped: ReturnType<typeof readShaped>) => shaped as Growing<typeof shaped> // fresh from the parser

const dtype = oneOf<DType>(...dtypes)
const phaseOf = oneOf(...phases)

function initOf(words: readonly string[]): Init {
  const [kind, of] = atMost(words[0] === 'normal' || words[0] === 'uniform' ? 2 : 1, words)
  if (kind === 'normal') return { kind, std: number.read(of) }
  if (kind === 'uniform') return { kind, bound: number.read(of) }
  return { kind: oneOf('zeros', 'ones').read(kind) }
}

const only = (words: readonly string[]): string | undefined => atMost(1, words)[0]

/** A shape that is split over nothing. */
function dimsAlone(words: readonly string[]): Dim[] {
  const { dims, layout } = readShaped(atMost(1, words))
  const [split] = Object.keys(layout.splits)
  if (split !== undefined) unreadable('program/text/split', { dim: split })
  return [...dims]
}

function readLine(draft: Draft, words: readonly string[]): void {
  const [first, ...rest] = words
  if (draft.segment && (first.startsWith('%') || words.at(-1)?.startsWith('%') || words.includes('=')))
    draft.segment.instrs.push(readInstr(words) as Growing<Instr>)
  else if (draft.segment && first === 'role') draft.segment.roles.push(readRoleLine(rest))
  else if (draft.segment && first === 'buffer') readBuffer(draft.segment, rest)
  else if (draft.stream && readStreamLine(draft.stream, first, rest)) return
  else if (draft.param && Object.hasOwn(ofParam, first)) ofParam[first](draft.param, rest)
  else if (Object.hasOwn(readers, first)) readers[first](draft, rest)
  else unreadable('program/text/unknown-line', { found: first, instead: near(first, Object.keys(readers)) })
}

function readRoleLine(words: readonly string[]): Role {
  const [text, kind, bytes, space] = atMost(4, words)
  return { name: readRole(word.read(text)), kind: kindOf.read(kind), bytes: count.read(bytes), ...readSpace(space) }
}

function readBuffer({ buffers, roles }: NonNullable<Draft['segment']>, words: readonly string[]): void {
  const [text, type, place = '', ...rest] = words
  const ref = refOf(text)
  if (Object.hasOwn(buffers, ref)) unreadable('program/text/buffer', { ref })
  const [, role, offset] = place.match(/^@(.+)\+(\d+)$/) ?? unreadable('program/text/offset', { found: place })
  const names = roles.map(r => showRole(r.name))
  const at = role.startsWith('#') ? count.read(role.slice(1)) : names.indexOf(name.read(role))
  if (at < 0) unreadable('program/text/unknown-role', { found: role, instead: near(role, names) }) // prettier than an offset into nowhere
  const { shape, ...inside } = readInside(rest)
  const lies = { ...growing(readShaped(shape)), ...inside }
  buffers[ref] = { dtype: dtype.read(type), role: at, offset: count.read(offset), ...lies }
}

function readStreamLine(stream: NonNullable<Draft['stream']>, first: string, rest: readonly string[]): boolean {
  if (first === 'peak') Object.assign(stream.peak, readPeak(rest))
  else if (first === 'elsewhere') {
    const [space, arena, ...peak] = rest
    const room = { arena: count.read(fields([arena], 'arena').arena), peak: { ...noBytes(), ...readPeak(peak) } }
    stream.elsewhere = { ...stream.elsewhere, [spaceNamed.read(space)]: room }
  } else if (first === 'resident') stream.resident = [...counts.read(only(rest))]
  else if (first === 'frame') {
    const [place, frame, kind, bytes, at, space] = atMost(6, rest)
    if (count.read(place) !== stream.frames.length)
      unreadable('program/text/frame', { frame: stream.frames.length, found: place })
    stream.frames.push({
      name: word.read(frame),
      kind: kindOf.read(kind),
      bytes: count.read(bytes),
      offset: count.read(at?.startsWith('@') ? at.slice(1) : unreadable('program/text/place')),
      ...readSpace(space),
    })
  } else if (Object.hasOwn(steps, first)) stream.steps.push(steps[first as keyof typeof steps](rest) as Growing<Step>)
  else return false
  return true
}

const steps: { readonly [K in Step['kind']]: (words: readonly string[]) => Step } = {
  alloc: words => ({ kind: 'alloc', frame: count.read(only(words)) }),
  free: words => ({ kind: 'free', frame: count.read(only(words)) }),
  send([frame, ...rest]) {
    const { to, tag } = fields(rest, 'to', 'tag')
    return { kind: 'send', frame: count.read(frame), peer: count.read(to), tag: word.read(tag) }
  },
  recv([frame, ...rest]) {
    const { from, tag } = fields(rest, 'from', 'tag')
    return { kind: 'recv', frame: count.read(frame), peer: count.read(from), tag: word.read(tag) }
  },
  wait: rest => ({ kind: 'wait', tag: word.read(fields(rest, 'tag').tag) }),
  call([segment, ...rest]) {
    const { block, microbatch, bind, param, tag } = fields(rest, 'block', 'microbatch', 'bind', 'param?', 'tag?')
    const once = { block: index.read(block), microbatch: index.read(microbatch), bind: counts.read(bind) }
    const named = {
      ...(param === '' ? {} : { param: word.read(param) }),
      ...(tag === '' ? {} : { tag: word.read(tag) }),
    }
    return { kind: 'call', segment: word.read(segment), ...once, ...named }
  },
}

const refOf = (text: string | undefined): string =>
  text?.startsWith('%') ? name.read(text.slice(1)) : unreadable('program/text/ref', { found: text ?? '' })

/** `%a %b = kind %x attribute=value` or `wait %x`. */
export function readInstr(words: readonly string[]): Instr {
  const equals = words.indexOf('=')
  const outs = words.slice(0, Math.max(equals, 0)).map(refOf)
  const [kind = '', ...rest] = words.slice(equals + 1)
  if (!Object.hasOwn(attributes, kind))
    unreadable('program/text/unknown-instruction', { found: kind, instead: near(kind, Object.keys(attributes)) })
  const ins = rest.filter(text => text.startsWith('%')).map(refOf)
  const given = readAttributes(
    kind as InstrKind,
    rest.filter(text => !text.startsWith('%')),
  ) // it is in the table
  return { kind, ...operandsOf(kind as InstrKind, ins, outs), ...given } as Instr // the table is total over kinds and their attributes
}

/** Instructions whose operands are no lists, and how many they have. */
const withoutLists: Partial<Record<InstrKind, { readonly ins: number; readonly outs: number }>> = {
  wait: { ins: 1, outs: 0 },
  load: { ins: 0, outs: 1 },
  slice: { ins: 1, outs: 1 },
}

function operandsOf(kind: InstrKind, ins: readonly string[], outs: readonly string[]) {
  const most = withoutLists[kind]
  const [single] = most ? atMost(most.ins, ins) : ins
  const [result] = most ? atMost(most.outs, outs) : outs
  if (kind === 'wait') return { on: single ?? unreadable('program/text/wait') }
  if (kind === 'load') return { out: result ?? unreadable('program/text/out', { kind }) }
  if (kind === 'slice')
    return {
      in: single ?? unreadable('program/text/in', { kind }),
      out: result ?? unreadable('program/text/out', { kind }),
    }
  return { ins, outs }
}

const optionals = [
  ...['window', 'scale', 'scaling', 'dim', 'groups', 'scaler', 'blocks', 'signs', 'lines'],
  ...[
    'rate',
    'coupled',
    'amsgrad',
    'uncorrected',
    'frozen',
    'nesterov',
    'dampening',
    'always',
    'stretch',
    'stochastic',
  ],
]

/** Attributes that may be missing: a dropout op without a dropout may not, nor a balance without a rate. */
const optional = (kind: InstrKind, key: string): boolean =>
  key === 'limit' ||
  (key === 'by' && (kind === 'quantize' || kind.startsWith('scaled'))) ||
  (key === 'combine' && kind === 'accumulate') ||
  (key === 'inputs' && kind.startsWith('adafactor')) ||
  (optionals.includes(key) && kind !== 'balance') ||
  (key === 'dropout' && kind !== 'dropout')

function readAttributes(kind: InstrKind, words: readonly string[]): Record<string, unknown> {
  const codecs = attributes[kind] as Record<string, Codec<unknown>> // the table gives each kind its own
  const given: Record<string, unknown> = kind === 'move' ? { group: alone } : {}
  for (const text of words) {
    const [key, value] = pair(text)
    const attribute = key === 'over' ? 'group' : key
    if (!Object.hasOwn(codecs, attribute))
      unreadable('program/text/unknown-attribute', { kind, found: key, instead: near(key, Object.keys(codecs)) })
    given[attribute] = codecs[attribute].read(value)
  }
  const missing = Object.keys(codecs).filter(key => !(key in given) && !optional(kind, key))
  const named = missing.map(key => (key === 'group' ? 'over' : key))
  if (named.length > 0) unreadable('program/text/needs', { kind, attributes: { joint: ',', of: named } })
  return given
}

const pair = (text: string): [string, string] => {
  const at = text.indexOf('=')
  return at > 0 ? [text.slice(0, at), text.slice(at + 1)] : unreadable('program/text/pair', { found: text })
}

/** The values of `key=value` words; a key that ends in `?` may be missing and is then ''. */
function fields<K extends string>(words: readonly string[], ...keys: readonly K[]) {
  const pairs = words.map(pair)
  const given = new Map(pairs)
  if (given.size < pairs.length) unreadable('program/text/twice', { keys: pairs.map(([key]) => key).join(' ') })
  const names = keys.map(key => key.replace('?', ''))
  for (const key of given.keys())
    if (!names.includes(key)) unreadable('program/text/unknown-key', { found: key, instead: near(key, names) })
  const missing = keys.find(key => !key.endsWith('?') && !given.has(key))
  if (missing) unreadable('program/text/missing', { key: missing })
  type Name = K extends `${infer Bare}?` ? Bare : K
  return Object.fromEntries(names.map(key => [key, given.get(key) ?? ''])) as Record<Name, string> // all of `names` are set
}
