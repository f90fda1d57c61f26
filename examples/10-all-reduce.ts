// All-reduce: every rank ends up with the sum of what all of them brought. Ranks are threads, their tensors lie in shared memory.
import { createGroup } from '../src/engine/native/index.js'

const group = await createGroup(4)
const x = group.tensor('f32', 3)
for (let rank = 0; rank < 4; rank++) group.write(rank, x, [rank, 10 * rank, 1])

await group.allReduce(x)
for (let rank = 0; rank < 4; rank++) console.log(`rank ${rank}:`, group.read(rank, x).join(' '))

await group.allReduce(x, { combine: 'mean' })
console.log('the mean of equal numbers:', group.read(2, x).join(' '))
await group.stop()

//> rank 0: 6 60 4
//> rank 1: 6 60 4
//> rank 2: 6 60 4
//> rank 3: 6 60 4
//> the mean of equal numbers: 6 60 4
