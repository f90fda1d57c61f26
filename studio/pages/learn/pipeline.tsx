/** Pipelines: stages, microbatches and schedules on paper. */
import { type Chosen, oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { percent, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { Figure } from '../../parts/figure.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Pipeline } from '../../parts/pipeline.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { JobText } from '../../work/jobs.js'

const text = defineText(
  {
    claim:
      'A pipeline gives each rank a run of layers. The second rank has nothing to do until the first has handed it something: that idle time is the bubble. Cutting the batch into microbatches makes it smaller, another order of the same work makes memory or bubble smaller.',
    title: 'Who computes when',
    knobs: { stages: 'Stages', microbatches: 'Microbatches', schedule: 'Schedule', backward: 'Backward : forward' },
    caption: (schedule: string, ticks: string, bubble: string, peak: string) =>
      `${schedule}: the step takes ${ticks} forwards, ranks idle ${bubble} of it, and the first holds ${peak} activations at most.`,
    rank: 'Rank',
    idle: 'Idle',
    held: 'Activations held',
    letters: 'p stages, m microbatches. It holds for gpipe and 1f1b, whatever a backward costs.',
    question:
      'From gpipe to 1f1b, with these stages and microbatches: how many times fewer activations does the first rank hold?',
    why: '1f1b begins a backward as soon as there is one, so what is held is bounded by the stages and not by the microbatches.',
    notice: [
      '1f1b and gpipe idle equally long. What 1f1b saves is memory.',
      'Twice the microbatches nearly halve the bubble, as long as a microbatch still fills the device.',
      'Schedules with I and W split the backward: weight gradients wait for nobody, so they can fill the bubble.',
    ],
  },
  {
    claim:
      '流水线让每个 rank 负责一段层。前一个 rank 交出结果之前，后一个无事可做，这段空闲就是气泡。把 batch 切成微批次能缩小气泡；同样的活换个顺序，能省显存或缩小气泡。',
    title: '谁在什么时候计算',
    knobs: { stages: '级数', microbatches: '微批次', schedule: '调度', backward: '反向与前向之比' },
    caption: (schedule: string, ticks: string, bubble: string, peak: string) =>
      `${schedule}：一步相当于 ${ticks} 次前向，空闲占 ${bubble}，第一个 rank 最多保留 ${peak} 份激活值。`,
    rank: 'Rank',
    idle: '空闲',
    held: '保留的激活值',
    letters: 'p：级数；m：微批次数。对 gpipe 和 1f1b 成立，与反向的耗时无关。',
    question: '级数和微批次不变，从 gpipe 换成 1f1b，第一个 rank 保留的激活值减少到几分之一？',
    why: '1f1b 一有反向就做，保留的份数由级数决定，而不是微批次数。',
    notice: [
      '1f1b 和 gpipe 的空闲一样长，1f1b 省的是显存。',
      '微批次加倍，气泡几乎减半，前提是一个微批次仍能填满设备。',
      '带 I 和 W 的调度把反向拆开：权重梯度不必等任何人，正好填进气泡。',
    ],
  },
)

const table = {
  stages: oneOf([2, 4, 8], 4),
  microbatches: oneOf([1, 2, 4, 8, 16], 8),
  schedule: oneOf(['gpipe', '1f1b', 'zb-h1', 'zb-h2', 'zb-v'], '1f1b'),
  backward: oneOf([1, 2, 3], 2),
}

/** The schedule as rank 0 has it: what it computes, sends and waits for. */
const jobOf = ({ stages, microbatches, schedule }: Chosen<typeof table>): JobText => ({
  model: { family: 'mlp', layers: 2 * stages, embed: 8, ffn: 16 },
  training: { seq: 4, globalBatch: microbatches },
  plan: { pp: stages, microbatches, schedule },
})

export default function PipelineLesson() {
  const knobs = readKnobs(table)
  const { stages, microbatches, schedule, backward } = knobs.chosen
  const words = text()
  const inputOf = (name: string) => ({
    ...{ name, ranks: stages, microbatches, chunks: name === 'zb-v' ? 2 : 1 },
    cost: { F: 1, I: backward / 2, W: backward / 2, C: 0 },
  })
  const { value, refusal, pending } = useAnswer('fast', ['schedule', 'lay'], inputOf(schedule))
  const code = useAnswer('fast', ['excerpts', 'stream'], { job: jobOf(knobs.chosen), rank: 0 }).value
  const caption = value
    ? words.caption(schedule, short(value.makespan), percent(value.bubble), short(value.peak[0]!))
    : '…'
  const fewer = async () => {
    const [before, after] = await Promise.all(
      ['gpipe', '1f1b'].map(name => ask('fast', ['schedule', 'lay'], inputOf(name))),
    )
    return before!.peak[0]! / after!.peak[0]!
  }
  const rows = {
    head: [words.rank, words.idle, words.held],
    body: (value?.peak ?? []).map((held, rank) => [rank, short(value!.idle[rank]!), short(held)]),
  }
  return (
    <Lesson
      name="pipeline"
      claim={words.claim}
      controls={
        <Controls
          knobs={knobs}
          labels={{
            stages: { label: words.knobs.stages },
            microbatches: { label: words.knobs.microbatches },
            schedule: { label: words.knobs.schedule },
            backward: { label: words.knobs.backward },
          }}
        />
      }
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <Figure title={words.title} caption={caption} rows={rows} pending={pending}>
            {value && <Pipeline rows={value.rows} makespan={value.makespan} label={caption} />}
          </Figure>
        </>
      }
      sentence={value && caption}
      formula={{
        math: {
          en: tex`\text{bubble} = \frac{p - 1}{m + p - 1} = \class{live}{\text{bubble}}`,
          zh: tex`\text{气泡} = \frac{p - 1}{m + p - 1} = \class{live}{\text{bubble}}`,
        },
        live: { bubble: percent((stages - 1) / (microbatches + stages - 1)) },
        letters: words.letters,
      }}
      guess={{ question: words.question, run: fewer, show: short, why: () => words.why, min: 0 }}
      notice={words.notice}
      listings={value ? [{ title: words.title, what: schedule, code: value.cells }] : []}
      program={code}
      open={{}}
      says={value && { field: 'makespan', value: value.makespan }}
      command={`lockstep schedule ${schedule} --pp ${stages} --microbatches ${microbatches} --cost F=1,I=${backward / 2},W=${backward / 2},C=0`}
    />
  )
}
