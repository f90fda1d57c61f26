// The root's tensor is cut and dealt out, each rank works on its part, and the root collects the parts.
import { createGroup } from '../src/engine/native/index.js'

const group = await createGroup(4)
const [whole, part] = [group.tensor('f64', 8), group.tensor('f64', 2)]
group.write(0, whole, [1, 2, 3, 4, 5, 6, 7, 8])

await group.scatter(whole, part)
for (let rank = 0; rank < 4; rank++) {
  const mine = group.view(rank, part)
  console.log(`rank ${rank} squares`, mine.join(' '))
  mine.forEach((value, i) => {
    mine[i] = value * value
  })
}
await group.gather(part, whole)
console.log('rank 0 collects', group.read(0, whole).join(' '))
await group.stop()

//> rank 0 squares 1 2
//> rank 1 squares 3 4
//> rank 2 squares 5 6
//> rank 3 squares 7 8
//> rank 0 collects 1 4 9 16 25 36 49 64
