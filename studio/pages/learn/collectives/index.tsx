/** The collectives: numbers of the reader’s, and what every rank has afterwards. */

import { counted, type Grid, putNumber, readGrid } from '../../../base/grid.js'
import { threads } from '../../../base/isolation.js'
import { oneOf, readKnobs } from '../../../base/knobs.js'
import { defineText } from '../../../base/language.js'
import { seconds, short } from '../../../base/numbers.js'
import { setQuery } from '../../../base/router.js'
import { Figure } from '../../../parts/figure.js'
import { Controls } from '../../../parts/knobs.js'
import { Lesson } from '../../../parts/lesson.js'
import { listed } from '../../../parts/names.js'
import { Trouble } from '../../../parts/trouble.js'
import { useAnswer } from '../../../work/answer.js'
import { ask } from '../../../work/ask.js'
import type { Combine, Operation } from '../../../work/collectives.js'
import { codeOf, pythonOf } from './code.js'
import { definitions } from './definitions.js'
import { Grids } from './grids.js'
import './collectives.css'

const text = defineText(
  {
    claim:
      'All traffic between ranks is made of a few operations. A collective is called by every rank of a group at once: some hand out, some collect, some add up on the way.',
    title: (op: string) => `${op} among threads of this page`,
    plainly: (op: string) =>
      `${op} by the interpreter: ranks are no threads here, since this page may not share memory`,
    ranks: 'Ranks',
    op: 'Operation',
    combine: 'How numbers become one',
    combines: { sum: 'sum', min: 'minimum', max: 'maximum', mean: 'mean' },
    root: 'Root (sender)',
    bad: 'The numbers of the link do not fit these ranks; others are shown instead.',
    caption: {
      broadcast: (root: number) => `Every rank ends with the numbers of rank ${root}.`,
      scatter: (root: number) => `Rank ${root} deals out its numbers, one to each rank.`,
      gather: (root: number) => `Rank ${root} ends with one number of every rank; the others get nothing.`,
      reduce: (root: number) => `Rank ${root} alone ends with the numbers of all ranks combined.`,
      'all-gather': () => 'Every rank ends with one number of every rank, in the order of the ranks.',
      'reduce-scatter': () => 'Numbers of all ranks are combined, and each rank keeps one of the results.',
      'all-reduce': () => 'Every rank ends with the numbers of all ranks combined.',
      'all-to-all': () => 'Number i of rank j becomes number j of rank i: a transposition over ranks.',
      'send-recv': (root: number) => `Rank ${root} hands its numbers to the next rank; nobody else takes part.`,
    },
    sentence: (op: string, rank: number, numbers: string) => `After ${op} rank ${rank} holds ${numbers}.`,
    letters:
      'x: what a rank brings; y: what it has afterwards; r the rank, i the place, q the root, n the number of ranks. The sum stands for any way to combine.',
    question:
      'A bug that happens: someone sums twice in a row, all-reduce and all-reduce again. What is the first number of rank 0 then?',
    why: 'After the first sum all ranks have the same number, and the second adds it up once a rank: gradients would be n times too large.',
    notice: [
      '“All-” means that everybody has the result; without it one rank, the root, has it, or had everything before.',
      'Scatter, gather and broadcast only copy. Where a name says reduce, numbers are combined on the way.',
      'All-reduce is a reduce-scatter with an all-gather behind it. The next lesson shows that to the bit.',
    ],
    ours: 'In TypeScript, as this page does it',
    oursWhat: 'lockstep/engine: ranks are threads, tensors lie in shared memory.',
    theirs: 'In PyTorch',
    theirsWhat: 'torch.distributed, for the same numbers; started once for every rank.',
    rank: 'Rank',
    has: 'Has afterwards',
    price: (kind: string, ranks: number, time: string, algorithm: string) =>
      `1 GiB by ${kind}, among ${ranks} H100s side by side: ${time}, with the algorithm “${algorithm}”.`,
    unused: (op: string) =>
      `No program of Lockstep has a ${op}: every rank runs the same program, so none of them is a root.`,
    unpriced: 'Nor does the cost model price it.',
  },
  {
    claim: 'rank 之间的通信归根到底只有几种操作。集合通信由一组 rank 同时调用：有的分发，有的收集，有的边传边加。',
    title: (op: string) => `${op}：由本页的线程完成`,
    plainly: (op: string) => `${op}：由解释器完成（本页不能共享内存，rank 不是线程）`,
    ranks: 'rank 数',
    op: '操作',
    combine: '怎样合并',
    combines: { sum: '求和', min: '最小值', max: '最大值', mean: '平均值' },
    root: '根（发送方）',
    bad: '链接里的数和 rank 数对不上，这里换成了默认的数。',
    caption: {
      broadcast: (root: number) => `每个 rank 最后都是 rank ${root} 的数。`,
      scatter: (root: number) => `rank ${root} 把自己的数分给大家，每人一个。`,
      gather: (root: number) => `rank ${root} 收齐每个 rank 的一个数；别的 rank 什么也没拿到。`,
      reduce: (root: number) => `只有 rank ${root} 得到所有 rank 合并后的结果。`,
      'all-gather': () => '每个 rank 都收齐了所有 rank 的数，按 rank 的次序排列。',
      'reduce-scatter': () => '所有 rank 的数先合并，每个 rank 只留下结果中的一个。',
      'all-reduce': () => '每个 rank 都得到所有 rank 合并后的结果。',
      'all-to-all': () => 'rank j 的第 i 个数变成 rank i 的第 j 个数：相当于跨 rank 的转置。',
      'send-recv': (root: number) => `rank ${root} 把数交给下一个 rank，其他 rank 不参与。`,
    },
    sentence: (op: string, rank: number, numbers: string) => `${op} 之后，rank ${rank} 上是 ${numbers}。`,
    letters:
      'x：rank 带来的数；y：之后拥有的数；r 是 rank，i 是位置，q 是根，n 是 rank 数。求和号代表任何一种合并方式。',
    question:
      '一个真会发生的错误：连着求和两次，也就是 all-reduce 之后又来一次 all-reduce。这时 rank 0 的第一个数是多少？',
    why: '第一次之后各 rank 的数已经相同，第二次又按 rank 数加了一遍：梯度会变成 n 倍。',
    notice: [
      '名字里带 “all-” 的，结果人人都有；不带的，只有根有，或者原本全在根上。',
      'scatter、gather、broadcast 只是复制；名字里有 reduce 的，会在途中合并。',
      'all-reduce 就是 reduce-scatter 再接 all-gather，下一课逐位对给你看。',
    ],
    ours: 'TypeScript：本页就是这样做的',
    oursWhat: 'lockstep/engine：rank 是线程，张量放在共享内存里。',
    theirs: 'PyTorch 写法',
    theirsWhat: '同样的数用 torch.distributed；每个 rank 各启动一份。',
    rank: 'rank',
    has: '之后拥有',
    price: (kind: string, ranks: number, time: string, algorithm: string) =>
      `在 ${ranks} 张相邻的 H100 上，1 GiB 的 ${kind} 要 ${time}，用的是 ${algorithm} 算法。`,
    unused: (op: string) => `Lockstep 的程序里没有 ${op}：每个 rank 跑同一份程序，谁也不是根。`,
    unpriced: '代价模型也不给它计价。',
  },
)

const table = {
  op: oneOf(
    [
      'broadcast',
      'scatter',
      'gather',
      'reduce',
      'all-gather',
      'reduce-scatter',
      'all-reduce',
      'all-to-all',
      'send-recv',
    ] as const satisfies readonly Operation[],
    'all-reduce',
  ),
  ranks: oneOf([2, 3, 4, 5, 6], 4),
  combine: oneOf(['sum', 'min', 'max', 'mean'] as const satisfies readonly Combine[]),
  root: oneOf([0, 1, 2, 3, 4, 5]),
}

const combining: readonly Operation[] = ['reduce', 'reduce-scatter', 'all-reduce']
const rooted: readonly Operation[] = ['broadcast', 'scatter', 'gather', 'reduce', 'send-recv']
/** Numbers a rank brings. */
const broughtBy = (op: Operation, n: number): number => (op === 'gather' || op === 'all-gather' ? 1 : n)

export default function Collectives() {
  const read = readKnobs(table)
  const { op, ranks, combine } = read.chosen
  const root = Math.min(read.chosen.root, ranks - 1)
  const { grid, bad } = readGrid('x', [ranks, ranks], counted(ranks, ranks))
  const { value, refusal, pending } = useAnswer('fast', ['collectives', 'collective'], { op, combine, root, x: grid })
  const price = useAnswer('fast', ['collectives', 'pricedOp'], { op, ranks }).value
  const code = useAnswer('fast', ['excerpts', 'spoken'], { op, ranks }).value
  const words = text()
  // Numbers belong to a number of ranks: other ranks, other numbers. What an operation does not have is not offered.
  const set: typeof read.set = (changes, settled) => {
    if ('ranks' in changes) setQuery({ x: undefined })
    read.set(changes, settled)
  }
  const useless = [...(combining.includes(op) ? [] : ['combine']), ...(rooted.includes(op) ? [] : ['root'])]
  const knobs = { ...read, set, hidden: new Set([...read.hidden, ...useless]) }
  const bench = `lockstep bench collectives --ranks ${ranks}`
  const getter = value?.out.findIndex(row => row.length > 0)
  const labels = {
    op: { label: words.op },
    ranks: { label: words.ranks },
    combine: { label: words.combine, show: (combine: Combine) => words.combines[combine] },
    root: { label: words.root },
  }
  return (
    <Lesson
      name="collectives"
      claim={words.claim}
      controls={<Controls knobs={knobs} labels={labels} />}
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          {bad && (
            <p class="trouble" role="alert">
              {words.bad}
            </p>
          )}
          <Figure
            title={threads.value ? words.title(op) : words.plainly(op)}
            caption={words.caption[op](root)}
            rows={{ head: [words.rank, words.has], body: rowsOf(value?.out) }}
            pending={pending}
          >
            <Grids
              {...{ op, root, x: grid, width: broughtBy(op, ranks), out: value?.out }}
              put={(place, number) => putNumber('x', ranks, place, number)}
            />
          </Figure>
        </>
      }
      sentence={value && getter !== undefined && words.sentence(op, getter, listed(value.out[getter]!.map(short)))}
      formula={{ math: definitions[op], letters: words.letters }}
      guess={{
        question: words.question,
        run: () => ask('fast', ['collectives', 'twice'], { x: grid }),
        why: () => words.why,
      }}
      more={
        <>
          {price && <p>{words.price(price.kind, price.ranks, seconds(price.seconds), price.algorithm)}</p>}
          {code?.length === 0 && (
            <p>
              {words.unused(op)} {price === null && words.unpriced}
            </p>
          )}
        </>
      }
      notice={words.notice}
      program={code}
      listings={[
        { title: words.ours, what: words.oursWhat, code: codeOf({ op, combine, root, x: grid }), open: true },
        { title: words.theirs, what: words.theirsWhat, code: pythonOf({ op, combine, root, x: grid }) },
      ]}
      command={price ? `lockstep cost ${price.kind} --size 1GiB --ranks ${price.ranks} --cluster h100` : bench}
      says={price ? { field: 'seconds', value: price.seconds } : undefined}
      also={price ? [{ line: bench }] : []}
    />
  )
}

const rowsOf = (out: Grid = []): (readonly [string, string])[] =>
  out.map((row, rank) => [`rank ${rank}`, row.map(short).join(', ') || '–'])
