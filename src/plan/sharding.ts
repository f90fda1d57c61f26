/** HSDP: groups of data-parallel ranks that ZeRO shards over, and their replicas. */
import { divisorsNear } from '../base/index.js'
import { advised, refused } from './phrases.js'
import type { Rule } from './rule.js'

export const sharding: Rule = function* ({ plan }) {
  const { dp, cp, zero, shard, compress } = plan
  if (shard === undefined) return
  if (dp % shard !== 0)
    return yield refused('plan.shard', 'plan/indivisible/shard', {
      dp,
      shard,
      rest: dp % shard,
      near: divisorsNear(dp, shard),
    })
  if (shard === dp) return
  if (zero === 0) yield refused('plan.shard', 'plan/no-effect/replicated', { shard })
  else if (shard * cp === 1) yield advised('plan.shard', 'plan/no-effect/sharded', { zero })
  if (compress?.reduce === 'int8') yield refused('plan.compress.reduce', 'plan/compress/replicas', { shard, dp })
}
