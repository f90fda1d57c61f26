// Part i of rank j becomes part j of rank i: a transpose over ranks. Experts get their tokens this way, in uneven parts.
import { createGroup } from '../src/engine/native/index.js'

const group = await createGroup(3)
const [x, out] = [group.tensor('i32', 3), group.tensor('i32', 3)]
for (let rank = 0; rank < 3; rank++) group.write(rank, x, [10 * rank, 10 * rank + 1, 10 * rank + 2])
await group.allToAll(x, out)
for (let rank = 0; rank < 3; rank++) console.log(`rank ${rank}:`, group.read(rank, out).join(' '))

// counts[j][i]: how many elements rank j has for rank i.
const counts = [
  [2, 0, 1],
  [0, 3, 0],
  [1, 1, 1],
]
const got = group.tensor('i32', 9)
await group.allToAllUneven(x, got, counts)
for (let rank = 0; rank < 3; rank++) {
  const arrived = counts.reduce((sum, row) => sum + row[rank], 0)
  console.log(`rank ${rank} gets ${arrived}:`, group.read(rank, got).slice(0, arrived).join(' '))
}
await group.stop()

//> rank 0: 0 10 20
//> rank 1: 1 11 21
//> rank 2: 2 12 22
//> rank 0 gets 3: 0 1 20
//> rank 1 gets 4: 10 11 12 21
//> rank 2 gets 2: 2 22
