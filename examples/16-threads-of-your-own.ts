// Ranks as threads of your own: each joins the group and calls collectives that block, as with torch.distributed.
// This file is both sides: the main thread starts it again once per rank.
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { createGroup, type GroupToken, joinGroup } from '../src/engine/native/index.js'

const ranks = 4

async function main(): Promise<void> {
  const { token } = await createGroup(ranks, { threads: false })
  const lines = Array.from(
    { length: ranks },
    (_, rank) =>
      new Promise<string>((resolve, reject) => {
        const worker = new Worker(new URL(import.meta.url), { workerData: { token, rank } })
        worker.on('message', resolve).on('error', reject)
      }),
  )
  for (const line of await Promise.all(lines)) console.log(line)
}

/** A token passed round the ring, then a sum, then a barrier. */
function rankMain({ token, rank }: { token: GroupToken; rank: number }): void {
  const me = joinGroup(token, rank)
  const [mine, got] = [me.tensor('i32', 1), me.tensor('i32', 1)]
  const [next, previous] = [(rank + 1) % ranks, (rank + ranks - 1) % ranks]
  me.view(mine)[0] = 100 + rank
  // Even ranks send first: if everybody did, everybody would wait.
  if (rank % 2 === 0) me.send(mine, next)
  me.recv(got, previous)
  if (rank % 2 === 1) me.send(mine, next)
  me.allReduce(mine)
  me.barrier()
  parentPort?.postMessage(`rank ${rank} got ${me.view(got)[0]} from rank ${previous}; the sum is ${me.view(mine)[0]}`)
}

if (isMainThread) await main()
else rankMain(workerData)

//> rank 0 got 103 from rank 3; the sum is 406
//> rank 1 got 100 from rank 0; the sum is 406
//> rank 2 got 101 from rank 1; the sum is 406
//> rank 3 got 102 from rank 2; the sum is 406
