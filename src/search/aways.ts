/**
 * What plans may keep elsewhere than on the device: states, parts of parameters, what layers hand to each other, each alone and together.
 * All of it is on the host as long as its memory lasts, and on the disk where it does not: a disk is slower and spares the device nothing more.
 */
import { activationBytes, dataRanks } from '../base/index.js'
import { type Split, stateBytes } from '../estimate/index.js'
import { parametersOf } from '../model/index.js'
import { plainSplit, type Request, setupOf } from './request.js'
import type { DeviceCut, Saving } from './space.js'

export type Away = Pick<Split, 'offload' | 'lifted' | 'waiting'>

/** What leaves is one of these sets. */
const sets: readonly (readonly (keyof Away)[])[] = [
  ['offload'],
  ['lifted'],
  ['waiting'],
  ['offload', 'lifted'],
  ['offload', 'waiting'],
  ['lifted', 'waiting'],
  ['offload', 'lifted', 'waiting'],
]

/** Bytes of one parameter, where it is kept. */
const bytesEach = (request: Request): Readonly<Record<'offload' | 'lifted', number>> => ({
  offload: stateBytes(setupOf(request, plainSplit), request.said?.training?.optimizer),
  lifted: activationBytes(request.precision),
})

/** Where each set lives, if ranks share everything evenly: no plan needs less of a host. */
export function awaysOf(request: Request): Away[] {
  const { cluster, model, shape } = request
  const share = parametersOf(model, shape.seq) / cluster.devices
  const each = bytesEach(request)
  return sets.map(set => {
    let room = cluster.host?.memory ?? Number.POSITIVE_INFINITY
    const away: { -readonly [What in keyof Away]: Away[What] } = {}
    for (const what of set) {
      const bytes = what === 'waiting' ? 0 : share * each[what]
      away[what] = bytes <= room ? 'host' : 'disk'
      if (bytes <= room) room -= bytes
    }
    return away
  })
}

/** Whether the hosts have room for what such plans keep there; what pads it, and what layers hand to each other, is not counted. */
export function hasRoomFor(request: Request): (cut: DeviceCut, saving: Saving) => boolean {
  const { cluster, model, shape, away } = request
  if (!away || !cluster.host) return () => true
  const { memory } = cluster.host
  const [all, each] = [parametersOf(model, shape.seq), bytesEach(request)]
  const bytes = (away.offload === 'host' ? each.offload : 0) + (away.lifted === 'host' ? each.lifted : 0)
  return (cut, { zero }) => (all * bytes) / (cut.tp * cut.pp * (zero > 0 ? dataRanks(cut) : 1)) <= memory
}
