/** A layer of a real model, cut: columns, rows and heads of each rank. The cut is dragged, or moved by arrow keys. */
import { useRef } from 'preact/hooks'
import { defineText } from '../../base/language.js'
import { bytes, count } from '../../base/numbers.js'
import { Figure } from '../../parts/figure.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import type { CutAnswer, CutInput, CutMatrix } from '../../work/layer-cut.js'

const text = defineText(
  {
    title: (model: string) => `One layer of ${model}: what rank 0 has`,
    caption: (tp: number, part: string, whole: string, heads: string, kv: string) =>
      `With tp ${tp} a rank holds ${part} of the ${whole} of a layer’s matrices, ${heads} query heads and ${kv} of keys and values.`,
    shared: (kv: number, tp: number) =>
      `There are fewer heads of keys and values (${kv}) than ranks (${tp}): each is held by ${tp / kv} ranks.`,
    head: ['Matrix', 'Whole', 'A rank has', 'Cut along', 'Bytes of a rank'],
    nothing: 'nothing',
    drag: 'Tensor parallel ranks: drag the cut, or press arrow keys',
    ranks: (tp: number) => `${tp} ranks`,
    query: 'Query heads',
    kv: 'Heads of keys and values',
    by: (rank: string) => `rank ${rank}`,
    columns: (name: string) => `${name}, by columns`,
    rows: (name: string) => `${name}, by rows`,
  },
  {
    title: (model: string) => `${model} 的一层：rank 0 拿到什么`,
    caption: (tp: number, part: string, whole: string, heads: string, kv: string) =>
      `tp ${tp} 时，一层的矩阵共 ${whole}，每个 rank 存 ${part}；query 头 ${heads} 个，key 和 value 的头 ${kv} 个。`,
    shared: (kv: number, tp: number) =>
      `key 和 value 的头（${kv} 个）比 rank（${tp} 个）少：每个头有 ${tp / kv} 个 rank 各存一份。`,
    head: ['矩阵', '整体', '一个 rank 拿到', '沿哪一维切', '一个 rank 的字节数'],
    nothing: '不切',
    drag: '张量并行的 rank 数：拖动切线，或按方向键',
    ranks: (tp: number) => `${tp} 个 rank`,
    query: 'query 头',
    kv: 'key 和 value 的头',
    by: (rank: string) => `rank ${rank}`,
    columns: (name: string) => `${name}，按列`,
    rows: (name: string) => `${name}，按行`,
  },
)

interface LayerCutProps extends CutInput {
  readonly steps: readonly number[]
  readonly change: (tp: number, settled: boolean) => void
}

export function LayerCut({ model, tp, steps, change }: LayerCutProps) {
  const { value, refusal, pending } = useAnswer('fast', ['cut', 'layerCut'], { model, tp })
  const words = text()
  const rows = { head: words.head, body: (value?.matrices ?? []).map(rowOf) }
  return (
    <>
      {refusal && <Trouble why={refusal} />}
      <Figure title={words.title(model)} caption={value ? captionOf(value) : '…'} rows={rows} pending={pending}>
        {value && (
          <>
            <div class="cuts">
              <Matrix value={value} name="mlp.up" label={words.columns('A = mlp.up')} hand={{ tp, steps, change }} />
              <Matrix value={value} name="mlp.down" label={words.rows('B = mlp.down')} />
            </div>
            <Heads label={words.query} heads={value.heads} />
            <Heads label={words.kv} heads={value.kvHeads} />
          </>
        )}
      </Figure>
    </>
  )
}

const sizes = ({ dims }: CutMatrix, which: 'size' | 'part'): string => dims.map(dim => dim[which]).join(' × ')
const cutDims = ({ dims }: CutMatrix): string[] => dims.flatMap(({ name, size, part }) => (part < size ? [name] : []))

const rowOf = (matrix: CutMatrix) => [
  ...[matrix.name, sizes(matrix, 'size'), sizes(matrix, 'part')],
  ...[cutDims(matrix).join(', ') || text().nothing, bytes(matrix.part)],
]

function captionOf({ tp, matrices, heads, kvHeads }: CutAnswer): string {
  const words = text()
  const sum = (of: 'bytes' | 'part') => matrices.reduce((all, matrix) => all + matrix[of], 0)
  const own = (all: CutAnswer['heads']) => count(all.filter(ranks => ranks.includes(0)).length)
  const said = words.caption(tp, bytes(sum('part')), bytes(sum('bytes')), own(heads), own(kvHeads))
  return kvHeads.length < tp ? `${said} ${words.shared(kvHeads.length, tp)}` : said
}

interface Hand {
  readonly tp: number
  readonly steps: readonly number[]
  readonly change: (tp: number, settled: boolean) => void
}

interface MatrixProps {
  readonly value: CutAnswer
  readonly name: string
  readonly label: string
  readonly hand?: Hand
}

/** A matrix as a rectangle, its strips in turn light and dark, that of rank 0 marked. */
function Matrix({ value, name, label, hand }: MatrixProps) {
  const matrix = value.matrices.find(each => each.name === name)
  if (!matrix) return null
  const byRows = matrix.dims[0]!.part < matrix.dims[0]!.size
  const strips = Array.from({ length: value.tp }, (_, rank) => rank)
  return (
    <div>
      <small>
        {label}: {sizes(matrix, 'size')}
      </small>
      <div class={byRows ? 'cut-matrix rows' : 'cut-matrix'}>
        {strips.map(rank => (
          <span key={rank} class={rank === 0 ? 'own' : undefined}>
            {value.tp <= 8 ? rank : ''}
          </span>
        ))}
        {hand && <Handle {...hand} />}
      </div>
    </div>
  )
}

/** The first cut: as wide as it makes the part of rank 0, so many ranks there are. */
function Handle({ tp, steps, change }: Hand) {
  const handle = useRef<HTMLDivElement>(null)
  const words = text()
  const at = steps.indexOf(tp)
  const nearest = (event: PointerEvent): number => {
    const { left, width } = handle.current!.parentElement!.getBoundingClientRect()
    const share = Math.max(0.001, (event.clientX - left) / width)
    return steps.reduce((best, step) => (Math.abs(1 / step - share) < Math.abs(1 / best - share) ? step : best))
  }
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowLeft: 1, ArrowDown: 1, ArrowRight: -1, ArrowUp: -1 }[event.key]
    if (by === undefined) return
    event.preventDefault()
    change(steps[Math.min(steps.length - 1, Math.max(0, at + by))]!, true)
  }
  return (
    <div
      ref={handle}
      class="cut-handle"
      style={{ left: `${100 / tp}%` }}
      role="slider"
      tabIndex={0}
      aria-label={words.drag}
      aria-valuemin={steps[0]}
      aria-valuemax={steps.at(-1)}
      aria-valuenow={tp}
      aria-valuetext={words.ranks(tp)}
      title={words.drag}
      onKeyDown={keys}
      onPointerDown={event => handle.current!.setPointerCapture(event.pointerId)}
      onPointerMove={event => event.buttons > 0 && nearest(event) !== tp && change(nearest(event), false)}
      onPointerUp={event => change(nearest(event), true)}
    />
  )
}

function Heads({ label, heads }: { readonly label: string; readonly heads: CutAnswer['heads'] }) {
  return (
    <div class="heads">
      <small>{label}</small>
      <div>
        {heads.map((ranks, head) => (
          <span key={head} class={ranks.includes(0) ? 'own' : undefined} title={text().by(ranks.join(', '))}>
            {ranks.length > 2 ? `${ranks[0]}–${ranks.at(-1)}` : ranks.join(' ')}
          </span>
        ))}
      </div>
    </div>
  )
}
