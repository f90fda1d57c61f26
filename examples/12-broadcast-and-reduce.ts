// One rank to all, and all to one.
import { createGroup } from '../src/engine/native/index.js'

const group = await createGroup(3)
const [x, out] = [group.tensor('i32', 2), group.tensor('i32', 2)]
for (let rank = 0; rank < 3; rank++) group.write(rank, x, [rank + 1, 7 - rank])

for (const combine of ['sum', 'max', 'min', 'product'] as const) {
  await group.reduce(x, out, { root: 2, combine })
  console.log(`rank 2 has the ${combine}:`, group.read(2, out).join(' '))
}

await group.broadcast(out, { root: 2 })
for (let rank = 0; rank < 3; rank++) console.log(`rank ${rank} was told`, group.read(rank, out).join(' '))
await group.stop()

//> rank 2 has the sum: 6 18
//> rank 2 has the max: 3 7
//> rank 2 has the min: 1 5
//> rank 2 has the product: 6 210
//> rank 0 was told 6 210
//> rank 1 was told 6 210
//> rank 2 was told 6 210
