/** All that is watched for in a run, as it happens or afterwards. */
import { watchExperts, watchStages } from './balance.js'
import { watchData, watchLoader } from './data.js'
import { watchDead } from './dead.js'
import type { HealthEvent } from './event.js'
import { watchDivergence, watchScale } from './learning.js'
import { watchLinks } from './links.js'
import { watchMemory } from './memory.js'
import { watchSpikes } from './spikes.js'
import { watchStragglers } from './stragglers.js'
import type { RunFacts, Watch } from './watch.js'

const watches: readonly ((facts: RunFacts) => Watch)[] = [
  ...[watchSpikes, watchDivergence, watchScale, watchDead],
  ...[watchStragglers, watchStages, watchExperts, watchLinks],
  ...[watchData, watchLoader, watchMemory],
]

/** All detectors of a run (loss spikes, stragglers, dead units ...) as one observer of its steps. */
export function watchRun(facts: RunFacts): Watch {
  const all = watches.map(watch => watch(facts))
  return line => unlike(all.flatMap(watch => watch(line)))
}

/** A rank that is slow makes its stage busy too: then the rank is what to look at. */
const unlike = (events: readonly HealthEvent[]): HealthEvent[] =>
  events.some(({ event }) => event === 'straggler') ? events.filter(({ event }) => event !== 'imbalance') : [...events]
