/** Plans of a request, any that fit its devices, from a seed. Schedules are drawn first: some have far more plans. */
import { choices } from '../src/base/index.js'
import { footprint, type Split, totalBytes } from '../src/estimate/index.js'
import { capacityOf, groupsOf, pipelinesOf, type Request, savingsOf, setupOf, splitFrom } from '../src/search/index.js'

export function randomSplits(request: Request, seed: number, count: number): Split[] {
  const { pick } = choices(seed)
  const groups = [...groupsOf(request)]
  const splits: Split[] = []
  while (splits.length < count) {
    const group = pick(groups)
    const pipelines = pipelinesOf(request, group.pp)
    if (pipelines.length === 0) continue
    const schedule = pick([...new Set(pipelines.map(pipeline => pipeline.schedule))])
    const pipeline = pick(pipelines.filter(one => one.schedule === schedule))
    const split = splitFrom(group, pipeline, pick(savingsOf(group)))
    if (totalBytes(footprint(setupOf(request, split))) <= capacityOf(request)) splits.push(split)
  }
  return splits
}
