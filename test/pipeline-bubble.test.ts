/** The time of a pipeline in the estimate: its schedule played on the costs of its stages, a part of it where it is long. */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { choices } from '../src/base/index.js'
import { orderFrom, type PlayedOrders, shortCounts } from '../src/estimate/schedules/order.js'
import { type PipelineCosts, playPipeline, type TaskTimes, taskCosts } from '../src/estimate/schedules/play.js'
import { type ScheduleName, scheduleFacts, scheduleNames } from '../src/plan/index.js'
import { type Counts, makeSchedule, timing } from '../src/schedule/index.js'

const orderOf = (name: ScheduleName, counts: Counts) => orderFrom(makeSchedule(name, counts))

/** When the last rank is done. */
const lastOf = (orders: PlayedOrders, microbatches: number, costs: PipelineCosts): number =>
  Math.max(...playPipeline(orders, microbatches, costs).finish)

const timesOf = (F: number, I: number, W: number): TaskTimes => ({ F, I, W, B: I + W })

const chunksOf = (name: ScheduleName): readonly number[] =>
  scheduleFacts[name].chunksFixed ? [scheduleFacts[name].chunks] : [2, 4]

for (const name of scheduleNames)
  test(`${name}: on equal stages it takes as long as on paper`, () => {
    for (const ranks of [1, 2, 3, 4, 8])
      for (const chunks of chunksOf(name))
        for (const microbatches of [1, 2, 3, 7, 16]) {
          const counts = { ranks, chunks, microbatches }
          const [F, I, W, C] = [1, 1.3, 0.7, 0.1]
          const tasks = taskCosts(Array.from({ length: ranks * chunks }, () => timesOf(F, I, W)))
          const there = lastOf({ order: orderOf(name, counts) }, microbatches, {
            tasks,
            near: C,
            far: C,
            flights: undefined,
          })
          const paper = timing(makeSchedule(name, counts), { F, I, W, C }).makespan
          // On paper a pair begins when both of its tasks can.
          const paired = scheduleFacts[name].backward === 'paired'
          ok(
            paired ? there <= paper + 1e-9 : Math.abs(there - paper) < 1e-9,
            `${JSON.stringify(counts)} ${there} ${paper}`,
          )
        }
  })

for (const name of scheduleNames)
  test(`${name}: of many microbatches a part tells the whole (SEED=1)`, () => {
    const { int } = choices(1)
    const random = () => int(1000) / 1000
    const errors: number[] = []
    for (const ranks of [2, 3, 4, 8])
      for (const chunks of chunksOf(name))
        for (const microbatches of [6 * ranks, 7 * ranks + 1, 10 * ranks, 13 * ranks - 1]) {
          const counts = { ranks, chunks, microbatches }
          const short = shortCounts(name, counts)
          if (!short) continue
          const [F, I, W] = [1, 0.9 + 0.8 * random(), 0.6 + 0.5 * random()]
          const head = 3 * random()
          const tasks = taskCosts(
            Array.from({ length: ranks * chunks }, (_, stage) => {
              const [layers, last] = [random() < 0.2 ? 3 : 2, stage === ranks * chunks - 1 ? head : 0]
              return timesOf(layers * F + last, layers * I + last, layers * W + last)
            }),
          )
          const [shorter, order] = short.map(n => orderOf(name, { ...counts, microbatches: n }))
          const costs = { tasks, near: 0.1, far: 0.1, flights: undefined }
          const part = lastOf({ order, shorter }, microbatches, costs)
          const whole = lastOf({ order: orderOf(name, counts) }, microbatches, costs)
          errors.push(Math.abs(part / whole - 1))
        }
    ok(errors.length > 0)
    const mean = errors.reduce((a, b) => a + b, 0) / errors.length
    ok(mean < 0.002 && Math.max(...errors) < 0.02, `mean ${mean}, worst ${Math.max(...errors)}`)
  })
