/**
 * L9: every element lies at a multiple of its size, where a machine can load it and a view of the memory can begin; and what is on a
 * disk begins on a page.
 */
import { diskPage } from '../../base/index.js'
import { bytesPer, type Program, type Segment, spaceOf } from '../program.js'
import type { Finding } from './law.js'
import { told } from './phrases.js'
import { everyStep } from './walk.js'

export function alignment(program: Program): Finding[] {
  const widths = new Map(Object.entries(program.segments).map(([key, segment]) => [key, widthsOf(segment)]))
  const findings: Finding[] = Object.entries(program.segments).flatMap(([key, segment]) => crookedBuffers(key, segment))
  for (const [pipeline, { frames }] of program.streams.entries())
    for (const { name, offset } of frames.filter(frame => spaceOf(frame) === 'disk' && frame.offset % diskPage !== 0))
      findings.push({ law: 'L9', pipeline, ...told('L9/disk', { name, offset }) })
  for (const { pipeline, stream, at, step } of everyStep(program)) {
    if (step.kind !== 'call') continue
    const place = { pipeline, step: at, segment: step.segment }
    for (const [role, width] of widths.get(step.segment)!.entries()) {
      const { name, offset } = stream.frames[step.bind[role]]
      if (offset % width !== 0) findings.push({ law: 'L9', ...place, ...told('L9/frame', { name, offset, width }) })
    }
  }
  return findings
}

/** Per role the bytes of the widest element that lies there. */
const widthsOf = ({ roles, buffers }: Segment): number[] =>
  roles.map((_, role) =>
    Object.values(buffers).reduce((most, b) => (b.role === role ? Math.max(most, bytesPer[b.dtype]) : most), 1),
  )

const crookedBuffers = (segment: string, { buffers }: Segment): Finding[] =>
  Object.entries(buffers)
    .filter(([, { offset, dtype }]) => offset % bytesPer[dtype] !== 0)
    .map(([ref, { offset, dtype }]) => ({
      law: 'L9',
      segment,
      ...told('L9/buffer', { what: `%${ref}`, offset, width: bytesPer[dtype], dtype }),
    }))
