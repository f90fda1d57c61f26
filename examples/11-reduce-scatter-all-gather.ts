// All-reduce is a reduce-scatter and an all-gather, to the bit: both add up in rank order. ZeRO lives on this.
import { createGroup } from '../src/engine/native/index.js'

const group = await createGroup(4)
const [x, part, both] = [group.tensor('f32', 1000), group.tensor('f32', 250), group.tensor('f32', 1000)]
// Thirds do not add up exactly: the order of the sum shows in the last bits.
for (let rank = 0; rank < 4; rank++)
  group.write(
    rank,
    x,
    Array.from({ length: 1000 }, (_, i) => (i + 1) / (3 + rank)),
  )

await group.reduceScatter(x, part)
for (let rank = 0; rank < 4; rank++) console.log(`rank ${rank} has the sums from`, group.read(rank, part)[0].toFixed(4))
await group.allGather(part, both)
await group.allReduce(x)

const bits = (rank: number, of: typeof x) => new Uint32Array(Float32Array.from(group.view(rank, of)).buffer)
const differ = bits(1, x).filter((word, i) => word !== bits(1, both)[i]).length
console.log('elements that differ in any bit:', differ)
await group.stop()

//> rank 0 has the sums from 0.9500
//> rank 1 has the sums from 238.4500
//> rank 2 has the sums from 475.9500
//> rank 3 has the sums from 713.4500
//> elements that differ in any bit: 0
