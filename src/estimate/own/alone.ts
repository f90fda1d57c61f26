/** Attention by itself, with nothing before or after it: how long the queries of a rank and the keys of all take to meet. */
import { tableOf } from '../book.js'
import type { Setup } from '../setup.js'
import { Clock } from './clock.js'
import { meetingTraffic, meetingWork } from './context.js'
import { kernelPrices } from './kernels.js'
import { lanesOf } from './lanes.js'
import { type BothWays, type Meeting, meetingOn } from './meeting.js'

/** Of one layer and one microbatch. */
export function attentionAlone(setup: Setup): BothWays {
  const { split, software } = setup
  const table = tableOf(setup)
  const work = meetingWork(setup, split, kernelPrices(setup))
  const traffic = meetingTraffic(setup, table, lanesOf(split, table))
  const play = (act: (meeting: Meeting) => void): number => {
    const clock = new Clock(software.contention)
    act(meetingOn(clock, work, traffic))
    return clock.now
  }
  return {
    forward: play(meeting => {
      meeting.queries()
      meeting.keys()
      meeting.values()
      meeting.forward(false)
      meeting.result()
    }),
    backward: play(meeting => {
      meeting.askLate()
      meeting.handGradient()
      meeting.backward(() => {})
      meeting.valuesBack()
      meeting.keysBack()
      meeting.queriesBack()
    }),
  }
}
