/** The schedule lab: every schedule there is, one searched for these costs, or the reader's own cells; what it takes, idles and holds. */
import { useMemo } from 'preact/hooks'
import { fixed, percent } from '../../base/numbers.js'
import { place, setQuery } from '../../base/router.js'
import { Command } from '../../parts/command.js'
import { Choice, NumberField, Steps } from '../../parts/controls.js'
import { Figure } from '../../parts/figure.js'
import { LongLink } from '../../parts/long-link.js'
import { Pipeline } from '../../parts/pipeline.js'
import { Timeline } from '../../parts/timeline/index.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import type { ScheduleAnswer, ScheduleInput } from '../../work/schedule.js'
import { Cells } from './cells.js'
import { asTimeline } from './drawn.js'
import { commandOf, readInput, writeInput } from './link.js'
import './style.css'
import { text } from './text.js'

/** More boxes than this are pixels. */
const mostBoxes = 400

export default function Schedule() {
  const words = text()
  const input = readInput(place.value.query)
  const answer = useAnswer('fast', ['schedule', 'lay'], input)
  const change = (next: Partial<ScheduleInput>, pushed = true) => setQuery(writeInput({ ...input, ...next }), pushed)
  return (
    <article class="schedule">
      <h1>{words.title}</h1>
      <p class="lead">{words.lead}</p>
      <Controls input={input} change={change} />
      {!answer.value && answer.pending && <p aria-busy="true">…</p>}
      {answer.refusal && <Trouble why={answer.refusal} />}
      {answer.value && <Drawn answer={answer.value} name={input.name} pending={answer.pending} />}
      <Cells cells={input.name === 'own' ? (input.cells ?? '') : (answer.value?.cells ?? '')} change={change} />
      {input.name === 'own' && <LongLink own="cells" file="own.csv" content={() => `${input.cells}\n`} />}
      <Command line={commandOf(input)} />
    </article>
  )
}

interface ControlsProps {
  readonly input: ScheduleInput
  readonly change: (next: Partial<ScheduleInput>, pushed?: boolean) => void
}

const counts = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64]

function Controls({ input, change }: ControlsProps) {
  const words = text()
  const { value: catalog = [] } = useAnswer('fast', ['schedule', 'catalog'], {})
  const names = [...catalog.map(({ name }) => name), 'own']
  const own = input.name === 'own'
  const steps = { ranks: counts.slice(0, 11), microbatches: counts, chunks: [1, 2, 3, 4] }
  return (
    <div class="controls">
      <Choice
        label={words.schedule}
        options={names.map(value => ({ value, label: value === 'own' ? words.own : value }))}
        value={input.name}
        change={name => change({ name })}
        note={own ? words.ownNote : words.describe[input.name as keyof typeof words.describe]}
      />
      {!own &&
        (['ranks', 'microbatches', 'chunks'] as const).map(field => (
          <Steps
            key={field}
            label={words[field]}
            steps={steps[field]}
            value={input[field]}
            change={value => change({ [field]: value }, false)}
            settle={value => change({ [field]: value })}
          />
        ))}
      {(['F', 'I', 'W', 'C'] as const).map(task => (
        <NumberField
          key={task}
          label={words.costs[task]}
          value={input.cost[task]}
          min={0}
          max={100}
          step="any"
          change={value => change({ cost: { ...input.cost, [task]: value } })}
        />
      ))}
      {input.name === 'zb-auto' && (
        <NumberField
          label={words.limit}
          value={input.limit ?? input.ranks}
          min={1}
          max={1000}
          step="any"
          change={limit => change({ limit })}
        />
      )}
    </div>
  )
}

interface DrawnProps {
  readonly answer: ScheduleAnswer
  readonly name: string
  readonly pending: boolean
}

function Drawn({ answer, name, pending }: DrawnProps) {
  const words = text()
  const { makespan, bubble, peak, idle, rows } = answer
  const boxes = rows.reduce((sum, row) => sum + row.length, 0)
  const data = useMemo(() => (boxes > mostBoxes ? asTimeline(answer) : undefined), [answer])
  const most = peak.reduce((a, b) => Math.max(a, b), 0)
  const caption = words.caption(name, fixed(makespan, 1), percent(bubble), fixed(most, 1))
  const table = {
    head: [words.rank, words.idle, words.peak],
    body: peak.map((held, rank) => [rank, fixed(idle[rank]!, 2), fixed(held, 1)]),
  }
  return (
    <Figure title={words.figure} caption={caption} rows={table} pending={pending}>
      {data ? <Timeline data={data} /> : <Pipeline rows={rows} makespan={makespan} label={caption} />}
    </Figure>
  )
}
