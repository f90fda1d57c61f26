/** When the frames of a stream are allocated and freed: from the first step that touches them to the last. */
import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { placeFrames } from '../src/compile/place.js'
import type { Use } from '../src/compile/stream/writer.js'
import { printStep } from '../src/ir/index.js'

const call = (segment: string, bind: readonly number[], tag?: string): Use => ({
  ...{ kind: 'call', segment, block: -1, microbatch: -1, bind },
  ...(tag === undefined ? {} : { tag }),
})
const wait = (tag: string): Use => ({ kind: 'wait', tag })

function places(title: string, steps: readonly Use[], expected: readonly string[]) {
  test(title, () => {
    const frames = ['f0', 'f1', 'f2'].map(name => ({ name, kind: 'activations' as const, bytes: 64 }))
    const { steps: all } = placeFrames({ frames, resident: new Set([0]), steps, frameOf: () => 0 })
    const show = (step: (typeof all)[number]) => (step.kind === 'call' ? step.segment : printStep(step))
    deepEqual(all.map(show), expected)
  })
}

places(
  'a frame lives as long as calls use it; what is resident is never freed',
  [call('a', [0, 1]), call('b', [1, 2]), call('c', [0])],
  ['alloc 1', 'a', 'alloc 2', 'b', 'free 1', 'free 2', 'c'],
)
places(
  'what is sent or received lives until its wait',
  [
    { kind: 'recv', frame: 1, peer: 1, tag: 'B0' },
    call('a', [2]),
    { kind: 'send', frame: 2, peer: 1, tag: 'F0' },
    wait('B0'),
    call('b', [1]),
    wait('F0'),
  ],
  [
    ...['alloc 1', 'recv 1 from=1 tag=B0', 'alloc 2', 'a', 'send 2 to=1 tag=F0'],
    ...['wait tag=B0', 'b', 'free 1', 'wait tag=F0', 'free 2'],
  ],
)
places(
  'what a call that only starts works on lives until its wait',
  [call('start', [1, 2], 'g0'), call('a', [2]), wait('g0'), call('b', [2])],
  ['alloc 1', 'alloc 2', 'start', 'a', 'wait tag=g0', 'free 1', 'b', 'free 2'],
)
