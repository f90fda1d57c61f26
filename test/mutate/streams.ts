/** Slips in what streams do, and in what the program says of its parameters and data. */
import { type Call, type Program, printStep, type Segment, type Step } from '../../src/ir/index.js'
import { draw, type Mutator, moved, type Random, without, withSteps } from './draw.js'

/** A slip in the steps of a stream. */
export const inSteps =
  (
    slip: (
      steps: readonly Step[],
      random: Random,
      program: Program,
    ) => { steps: readonly Step[]; at: number; from?: number; what: string } | undefined,
  ): Mutator =>
  (program, random) => {
    const pipeline = random.int(program.streams.length)
    const slipped = slip(program.streams[pipeline].steps, random, program)
    if (!slipped) return undefined
    const at = [slipped.at, ...(slipped.from === undefined ? [] : [slipped.from])].map(step => ({ pipeline, step }))
    return { what: slipped.what, at, program: withSteps(program, pipeline, () => slipped.steps) }
  }

export const inStep = (
  holds: (step: Step) => boolean,
  change: (step: Step, random: Random, program: Program) => Step | undefined,
): Mutator =>
  inSteps((steps, random, program) => {
    const found = steps.flatMap((step, i) => (holds(step) ? [i] : []))
    if (found.length === 0) return undefined
    const at = random.pick(found)
    const changed = change(steps[at], random, program)
    return (
      changed && { steps: steps.with(at, changed), at, what: `${printStep(steps[at])} became ${printStep(changed)}` }
    )
  })

const isCall = (step: Step): step is Call => step.kind === 'call'
const travels = (step: Step) => step.kind === 'send' || step.kind === 'recv'

/** Moves one step of a kind by a few places, or anywhere. */
const move = (kinds: readonly Step['kind'][], direction: -1 | 1): Mutator =>
  inSteps((steps, { pick, int }) => {
    const found = steps.flatMap((step, i) => (kinds.includes(step.kind) ? [i] : []))
    if (found.length === 0) return undefined
    const from = pick(found)
    const to = Math.min(Math.max(0, from + direction * (1 + int(12))), steps.length - 1)
    return {
      steps: moved(steps, from, to),
      at: to,
      from,
      what: `${printStep(steps[from])} moved from ${from} to ${to}`,
    }
  })

export const inStreams: Readonly<Record<string, Mutator>> = {
  'drop a step': inSteps((steps, { int }) => {
    const at = int(steps.length)
    return { steps: without(steps, at), at, what: `dropped ${printStep(steps[at])}` }
  }),
  'do a call twice': inSteps((steps, { pick }) => {
    const at = pick(steps.flatMap((step, i) => (isCall(step) ? [i] : [])))
    return { steps: steps.toSpliced(at, 0, steps[at]), at, what: `twice ${printStep(steps[at])}` }
  }),
  'free early': move(['free'], -1),
  'allocate late': move(['alloc'], 1),
  'wait late': move(['wait'], 1),
  'wait early': move(['wait'], -1),
  'receive late': move(['recv'], 1),
  'send early': move(['send'], -1),
  'call early': move(['call'], -1),
  'call late': move(['call'], 1),
  'swap two transfers': inSteps((steps, { pick }) => {
    const found = steps.flatMap((step, i) => (travels(step) ? [i] : []))
    if (found.length < 2) return undefined
    const at = pick(found.slice(1))
    const other = found[found.indexOf(at) - 1]
    return {
      steps: steps.with(at, steps[other]).with(other, steps[at]),
      at,
      from: other,
      what: `${printStep(steps[at])} changed places with ${printStep(steps[other])}`,
    }
  }),
  'send another frame': inSteps((steps, { pick }) => {
    const found = steps.flatMap((step, i) => (travels(step) ? [i] : []))
    const sent = found.map(i => steps[i] as Extract<Step, { kind: 'send' | 'recv' }>) // found as such
    if (found.length < 2) return undefined
    const at = pick(found)
    const step = steps[at] as (typeof sent)[number] // found as such
    const changed = { ...step, frame: pick(sent).frame }
    return changed.frame === step.frame
      ? undefined
      : { steps: steps.with(at, changed), at, what: `${printStep(step)} became ${printStep(changed)}` }
  }),
  'send to another stage': inStep(travels, (step, { int }, { streams }) =>
    step.kind === 'send' || step.kind === 'recv' ? { ...step, peer: int(streams.length) } : undefined,
  ),
  'bind another frame': (program, random) => {
    const { pipeline, step, call } = draw(program, random)
    const { frames, steps } = program.streams[pipeline]
    const role = random.int(call.bind.length)
    const own = frames[call.bind[role]]
    const others = frames.flatMap((frame, i) =>
      frame !== own && frame.bytes === own.bytes && frame.kind === own.kind ? [i] : [],
    )
    if (others.length === 0) return undefined
    const changed = { ...call, bind: call.bind.with(role, random.pick(others)) }
    const what = `${printStep(call)} became ${printStep(changed)}`
    return { what, at: [{ pipeline, step }], program: withSteps(program, pipeline, () => steps.with(step, changed)) }
  },
  'another microbatch': inStep(isCall, (step, { int }, { microbatches }) =>
    isCall(step) && step.microbatch >= 0 && microbatches > 1
      ? { ...step, microbatch: (step.microbatch + 1 + int(microbatches - 1)) % microbatches }
      : undefined,
  ),
  'another block': inStep(isCall, (step, { pick }, { blocks }) => {
    if (!isCall(step) || step.block < 0) return undefined
    const others = blocks.flatMap(({ kind }, i) => (i !== step.block && kind === blocks[step.block].kind ? [i] : []))
    return others.length > 0 ? { ...step, block: pick(others) } : undefined
  }),
  'another parameter': inStep(isCall, (step, { pick }, { params }) =>
    isCall(step) && step.param !== undefined ? { ...step, param: pick(params).name } : undefined,
  ),
  'another segment': (program, random) => {
    const { pipeline, step, call, segment } = draw(program, random)
    const fits = (other: Segment) =>
      other !== segment &&
      JSON.stringify(other.roles.map(r => r.bytes)) === JSON.stringify(segment.roles.map(r => r.bytes))
    const others = Object.keys(program.segments).filter(key => fits(program.segments[key]))
    if (others.length === 0) return undefined
    const changed = { ...call, segment: random.pick(others) }
    const what = `${printStep(call)} became ${printStep(changed)}`
    return { what, at: [{ pipeline, step }], program: withSteps(program, pipeline, steps => steps.with(step, changed)) }
  },
  'put a frame over another': (program, random) => {
    const pipeline = random.int(program.streams.length)
    const stream = program.streams[pipeline]
    const [a, b] = [random.int(stream.frames.length), random.int(stream.frames.length)]
    const moved = { ...stream.frames[a], offset: stream.frames[b].offset }
    const what = `${moved.name} lies where ${stream.frames[b].name} does`
    const streams = program.streams.with(pipeline, { ...stream, frames: stream.frames.with(a, moved) })
    return { what, at: [{ pipeline }], program: { ...program, streams } }
  },
}

/** A slip in what the program says of its parameters and data. Its place is wherever they are used first. */
export const inDeclarations: Readonly<Record<string, Mutator>> = {
  'keep a parameter otherwise': (program, { int, pick }) => {
    const at = int(program.params.length)
    const param = program.params[at]
    const axes = program.mesh.axes.filter(({ size }) => size > 1)
    if (axes.length === 0) return undefined
    const splits = { [pick(param.dims).name]: [pick(axes).name] }
    const use = pick(['kept', 'state'] as const)
    const changed = { ...param, [use]: { splits, partial: {} } }
    return {
      what: `${param.name} is ${use} as ${JSON.stringify(splits)}`,
      at: [{}],
      program: { ...program, params: program.params.with(at, changed) },
    }
  },
  'swap two parameters': (program, { int, pick }) => {
    const at = int(program.params.length)
    const param = program.params[at]
    const holders = JSON.stringify(Object.keys(param.frames))
    const alike = ({ dims, frames }: typeof param) =>
      JSON.stringify(dims) === JSON.stringify(param.dims) && JSON.stringify(Object.keys(frames)) === holders
    const others = program.params.flatMap((other, i) => (i !== at && alike(other) ? [i] : []))
    if (others.length === 0) return undefined
    const other = pick(others)
    const params = program.params
      .with(at, { ...param, frames: program.params[other].frames })
      .with(other, { ...program.params[other], frames: param.frames })
    return {
      what: `${param.name} lies where ${program.params[other].name} does`,
      at: [{}],
      program: { ...program, params },
    }
  },
  'split an input otherwise': (program, { int, pick }) => {
    const at = int(program.inputs.length)
    const input = program.inputs[at]
    const axes = program.mesh.axes.filter(({ size }) => size > 1)
    if (axes.length === 0 || input.dims.length === 0) return undefined
    const layout = { splits: { [pick(input.dims).name]: [pick(axes).name] }, partial: {} }
    return {
      what: `${input.name} lies as ${JSON.stringify(layout)}`,
      at: [{}],
      program: { ...program, inputs: program.inputs.with(at, { ...input, layout }) },
    }
  },
}
