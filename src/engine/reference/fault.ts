/**
 * Which instruction made the first number that is not finite. A step that was skipped has changed nothing, so it can be run again,
 * with every result looked at: the first that is not finite although all it was made of is.
 */
import { type Instr, isCollective, isCompute, type Program, type Ref } from '../../ir/index.js'
import type { BadNumber } from '../look.js'
import type { StepData } from '../runner.js'
import { boot, type Interpreter } from './machine.js'
import type { Observation, Options } from './world.js'

/** `prepare` gives the machine what the step began with. Undefined where every number of the step is finite. */
export function firstFault(
  program: Program,
  options: Omit<Options, 'observe'>,
  prepare: (machine: Interpreter) => void,
  data: StepData,
): BadNumber | undefined {
  let fault: BadNumber | undefined
  const observe = (done: Observation) => {
    fault = faultIn(program, done)
    if (fault) throw new Error('the step has shown what it was run for')
  }
  const machine = boot(program, { ...options, observe })
  prepare(machine)
  try {
    machine.step(data)
  } catch (e) {
    if (!fault) throw e
  }
  return fault
}

/** What arrives was there before it was sent, or overflowed as it was summed. */
function faultIn(program: Program, { rank, call, instr, read }: Observation): BadNumber | undefined {
  const { instrs } = program.segments[call.segment]
  const maker = instr.kind === 'wait' ? instrs.find(one => isCollective(one) && one.outs.includes(instr.on)) : instr
  for (const [i, ref] of writtenBy(instr).entries()) {
    const values = read(ref)
    const index = values.findIndex(value => isBad(value, instr, i))
    if (index < 0) continue
    const made = { ref, value: values[index], index }
    return {
      rank,
      call,
      instr: maker ?? instr,
      made,
      of: operandsOf(maker ?? instr).map(from => ({ ref: from, most: mostOf(read(from)) })),
    }
  }
  return undefined
}

function writtenBy(instr: Instr): readonly Ref[] {
  if (isCompute(instr)) return instr.outs
  return instr.kind === 'wait' ? [instr.on] : instr.kind === 'load' || instr.kind === 'slice' ? [instr.out] : []
}

const operandsOf = (instr: Instr): readonly Ref[] => (isCompute(instr) || isCollective(instr) ? instr.ins : [])

/** Where a query sees no key, the logarithm of its sum is -infinity. */
const isBad = (value: number, { kind }: Instr, result: number): boolean =>
  !Number.isFinite(value) && !(value === Number.NEGATIVE_INFINITY && kind.startsWith('attention') && result === 1)

const mostOf = (values: ArrayLike<number>): number =>
  Array.from(values).reduce((most, value) => Math.max(most, Math.abs(value)), 0)
