/**
 * L5 and L9 for what lives from step to step: parameters, their states, scalars and the results are written and read between steps
 * too, whether or not a call is given them.
 */
import { heldElements, type Layout, lineElements, localDims, scalarEntries } from '../../base/index.js'
import { bytesPer, type DType, dtypeOfState, type Param, type Program, resultPlaces } from '../program.js'
import { resultNames } from '../role.js'
import type { Finding } from './law.js'

export function residents(program: Program): Finding[] {
  const findings: Finding[] = []
  const check = (what: string, pipeline: number, frame: number, { bytes, dtype }: Need) => {
    const at = program.streams[pipeline].frames[frame]
    if (at.bytes < bytes)
      findings.push({ law: 'L5', pipeline, message: `${what} needs ${bytes} bytes, ${at.name} has ${at.bytes}` })
    if (at.offset % bytesPer[dtype] !== 0)
      findings.push({
        law: 'L9',
        pipeline,
        message: `${what} begins at ${at.offset}, not a multiple of ${bytesPer[dtype]} (${dtype})`,
      })
  }
  for (const param of program.params) {
    const [own, state] = [neededBy(program, param), neededBy(program, param, dtypeOfState(param))]
    for (const [pipeline, { param: frame, states }] of Object.entries(param.frames)) {
      check(`parameter ${param.name}`, Number(pipeline), frame, own)
      for (const [name, at] of Object.entries(states)) check(`${name} of ${param.name}`, Number(pipeline), at, state)
    }
  }
  for (const name of resultNames)
    for (const [pipeline, frame] of resultPlaces(program.results[name]))
      check(`the ${name}`, pipeline, frame, { bytes: bytesPer.f32, dtype: 'f32' })
  for (const [name, { frames }] of scalarEntries(program.scalars))
    for (const [pipeline, frame] of resultPlaces(frames))
      check(name, pipeline, frame, { bytes: bytesPer.f32, dtype: 'f32' })
  return findings
}

interface Need {
  readonly bytes: number
  readonly dtype: DType
}

/** The parameter itself, or with a dtype one of its states. */
function neededBy({ mesh }: Program, param: Param, ofState?: DType): Need {
  const layout: Layout = ofState ? param.state : param.kept
  const dims = localDims(mesh, param.dims, layout)
  const room = !ofState && param.keptInside ? lineElements : heldElements
  const dtype = ofState ?? param.dtype
  return { bytes: room(mesh, dims, layout) * bytesPer[dtype], dtype }
}
