// Every rank gets every rank's part, in order; with subgroups, only among those that belong together.
import { createGroup } from '../src/engine/native/index.js'

const group = await createGroup(4)
const [x, all, pair] = [group.tensor('bf16', 1), group.tensor('bf16', 4), group.tensor('bf16', 2)]
for (let rank = 0; rank < 4; rank++) group.write(rank, x, [rank + 0.5])

await group.allGather(x, all)
console.log('rank 3 has', group.read(3, all).join(' '))

await group.subgroup([0, 2]).allGather(x, pair)
await group.subgroup([3, 1]).allGather(x, pair)
for (let rank = 0; rank < 4; rank++) console.log(`rank ${rank} and its partner:`, group.read(rank, pair).join(' '))
await group.stop()

//> rank 3 has 0.5 1.5 2.5 3.5
//> rank 0 and its partner: 0.5 2.5
//> rank 1 and its partner: 3.5 1.5
//> rank 2 and its partner: 0.5 2.5
//> rank 3 and its partner: 3.5 1.5
