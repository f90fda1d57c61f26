/**
 * L5 and L9 for what lives from step to step: parameters, their states, scalars and the results are written and read between steps
 * too, whether or not a call is given them.
 */
import { heldElements, lineElements, localDims, type Spoken, scalarEntries, stateEntries } from '../../base/index.js'
import { bytesPer, type DType, type Program, resultPlaces, type StateTensor, stateTensor } from '../program.js'
import { resultNames } from '../role.js'
import type { Finding } from './law.js'
import { clause, told } from './phrases.js'

export function residents(program: Program): Finding[] {
  const findings: Finding[] = []
  const check = (what: Spoken | string, pipeline: number, frame: number, { bytes, dtype }: Need) => {
    const at = program.streams[pipeline].frames[frame]
    if (at.bytes < bytes)
      findings.push({
        law: 'L5',
        pipeline,
        ...told('L5/kept', { what, needed: bytes, frame: at.name, bytes: at.bytes }),
      })
    if (at.offset % bytesPer[dtype] !== 0)
      findings.push({
        law: 'L9',
        pipeline,
        ...told('L9/buffer', { what, offset: at.offset, width: bytesPer[dtype], dtype }),
      })
  }
  for (const param of program.params) {
    const own = neededBy(program, { ...param, layout: param.kept }, param.keptInside)
    for (const [pipeline, { param: frame, states }] of Object.entries(param.frames)) {
      check(clause('.parameter', { name: param.name }), Number(pipeline), frame, own)
      for (const [state, at] of stateEntries(states))
        check(
          clause('.state-of', { state, name: param.name }),
          Number(pipeline),
          at,
          neededBy(program, stateTensor(param, state)),
        )
    }
  }
  for (const name of resultNames)
    for (const [pipeline, frame] of resultPlaces(program.results[name]))
      check(clause('.result', { name }), pipeline, frame, { bytes: bytesPer.f32, dtype: 'f32' })
  for (const [name, { frames }] of scalarEntries(program.scalars))
    for (const [pipeline, frame] of resultPlaces(frames))
      check(name, pipeline, frame, { bytes: bytesPer.f32, dtype: 'f32' })
  return findings
}

interface Need {
  readonly bytes: number
  readonly dtype: DType
}

/** By what a rank keeps, inside the whole where all parts have room. */
function neededBy({ mesh }: Program, { dtype, layout, ...tensor }: StateTensor, isInside = false): Need {
  const dims = localDims(mesh, tensor.dims, layout)
  const room = isInside ? lineElements : heldElements
  return { bytes: room(mesh, dims, layout) * bytesPer[dtype], dtype }
}
