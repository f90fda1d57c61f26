/** A rank in a thread of its own: sums, gathers, and passes its number on in a ring. */
import { parentPort, workerData } from 'node:worker_threads'
import { type GroupToken, joinGroup } from '../src/engine/native/index.js'

const { token, rank } = workerData as { token: GroupToken; rank: number }
const me = joinGroup(token, rank)
const [x, one, all, passed] = [me.tensor('f64', 2), me.tensor('i32', 1), me.tensor('i32', 3), me.tensor('i32', 1)]
me.view(x).set([rank, 2 * rank])
me.allReduce(x)
me.view(one)[0] = rank
me.allGather(one, all)
const [next, previous] = [(rank + 1) % 3, (rank + 2) % 3]
// Everybody sending first would wait in a circle.
if (rank === 0) {
  me.send(one, next)
  me.recv(passed, previous)
} else {
  me.recv(passed, previous)
  me.send(one, next)
}
parentPort?.postMessage({ sum: [...me.view(x)], gathered: [...me.view(all)], passed: me.view(passed)[0] })
