/** W5: what is counted is counted in whole numbers. A size of 2.5, -1 or NaN would pass every comparison below it. */
import { type Dim, elementsOf, type Space, type Spoken, stateEntries } from '../../base/index.js'
import type { Program } from '../program.js'
import { showRole } from '../role.js'
import type { Finding, Place } from './law.js'
import { clause, told } from './phrases.js'

export function wholeNumbers(program: Program): Finding[] {
  const findings: Finding[] = []
  const check = (what: string | Spoken, n: number, least: number, place: Place = {}) => {
    if (!Number.isSafeInteger(n) || n < least)
      findings.push({ law: 'W5', ...place, ...told('W/whole', { what, number: n, least }) })
  }
  const checkDims = (of: string | Spoken, dims: readonly Dim[], place?: Place) => {
    for (const { name, size } of dims) check(clause('.dim-of', { dim: name, of }), size, 1, place)
    check(clause('.elements-of', { of }), elementsOf(dims), 0, place)
  }
  check('microbatches', program.microbatches, 1)
  check('stages', program.stages, 1)
  for (const { name, size } of program.mesh.axes) check(name, size, 1)
  for (const { name, stage } of program.blocks) check(clause('.stage-of', { name }), stage, 0)
  for (const { name, dims } of [...program.params, ...program.inputs]) checkDims(name, dims)
  for (const { name, apart = {} } of program.params)
    for (const [state, { dims }] of stateEntries(apart)) checkDims(clause('.state-of', { state, name }), dims)
  for (const [segment, { roles, buffers }] of Object.entries(program.segments)) {
    for (const { name, bytes } of roles)
      check(clause('.bytes-of-role', { role: showRole(name) }), bytes, 0, { segment })
    for (const [ref, { offset, dims }] of Object.entries(buffers)) {
      check(clause('.offset-of', { ref }), offset, 0, { segment })
      checkDims(`%${ref}`, dims, { segment })
    }
  }
  program.streams.forEach(({ arena, frames, elsewhere = {} }, pipeline) => {
    check(clause('.arena'), arena, 0, { pipeline })
    for (const [space, room] of Object.entries(elsewhere))
      check(clause('.arena-of', { space: clause(`.space/${space as Space}`) }), room.arena, 0, { pipeline })
    for (const { name, bytes, offset } of frames) {
      check(clause('.bytes-of-frame', { name }), bytes, 0, { pipeline })
      check(clause('.offset-of-frame', { name }), offset, 0, { pipeline })
    }
  })
  return findings
}
