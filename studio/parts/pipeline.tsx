/** A pipeline of few ranks as boxes: letters say what a box is, colours repeat it. Many ranks are drawn by the timeline. */
import type { Box } from '../work/schedule.js'

interface PipelineProps {
  readonly rows: readonly (readonly Box[])[]
  readonly makespan: number
  readonly label: string
}

const [height, gap, margin, width] = [26, 4, 30, 1000]

export function Pipeline({ rows, makespan, label }: PipelineProps) {
  const unit = (width - margin) / makespan
  return (
    <svg class="pipeline" viewBox={`0 0 ${width} ${rows.length * (height + gap)}`} role="img" aria-label={label}>
      {rows.map((boxes, rank) => (
        <g key={rank} transform={`translate(0 ${rank * (height + gap)})`}>
          <text x={0} y={17}>{`r${rank}`}</text>
          <rect class="lane" x={margin} width={width - margin} height={height} />
          {boxes.map(box => (
            <Cell key={`${box.kind}${box.stage}.${box.microbatch}`} box={box} unit={unit} />
          ))}
        </g>
      ))}
    </svg>
  )
}

function Cell({ box, unit }: { readonly box: Box; readonly unit: number }) {
  const [x, wide] = [margin + box.start * unit, (box.end - box.start) * unit]
  const [y, tall] = box.band === undefined ? [0, height] : [(box.band * height) / 2, height / 2]
  return (
    <g class={`task ${box.kind}`}>
      <rect x={x} y={y} width={Math.max(0, wide - 1)} height={tall} rx={2} />
      {wide >= 22 && (
        <text x={x + wide / 2} y={y + tall / 2 + 4} text-anchor="middle">{`${box.kind}${box.microbatch}`}</text>
      )}
    </g>
  )
}
