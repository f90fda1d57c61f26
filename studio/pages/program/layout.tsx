/** Which part of a whole tensor a rank holds: its last two dims drawn, the others in words. */
import { Figure } from '../../parts/figure.js'
import type { BufferShape } from '../../work/program/index.js'
import { text } from './text.js'

const [width, height] = [260, 130]

export function Layout({ name, shape }: { readonly name: string; readonly shape: BufferShape }) {
  const words = text()
  const split = shape.dims.filter(({ parts }) => parts > 1)
  const said = split.map(({ name, index, parts }) => `${name} ${index + 1}/${parts}`).join(', ')
  const caption = words.layoutCaption(name, said || words.wholePart)
  const rows = {
    head: [words.dim, words.here, words.whole, words.from],
    body: shape.dims.map(({ name, size, parts, index }) => [name, size, size * parts, size * index]),
  }
  const one = { name: '', size: 1, parts: 1, index: 0 }
  const [down = one, across = one] = shape.dims.length > 1 ? shape.dims.slice(-2) : [one, shape.dims[0] ?? one]
  const [wide, high] = [width / across.parts, height / down.parts]
  return (
    <Figure title={words.layout(name)} caption={caption} rows={rows}>
      <svg class="layout" viewBox={`-1 -1 ${width + 2} ${height + 26}`} role="img" aria-label={caption}>
        <rect class="whole" width={width} height={height} />
        <rect class="mine" x={across.index * wide} y={down.index * high} width={wide} height={high} />
        <text x={0} y={height + 16}>
          {[down.name, across.name].filter(Boolean).join(' × ')}
        </text>
      </svg>
    </Figure>
  )
}
