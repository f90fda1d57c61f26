/** Checkpoints and faults: how often to save, and what failures leave of a run. */
import { oneOf, readKnobs } from '../../base/knobs.js'
import { defineText } from '../../base/language.js'
import { onJob, planQuery } from '../../base/links.js'
import { percent, seconds, short } from '../../base/numbers.js'
import { tex } from '../../base/tex.js'
import { BarsFigure } from '../../parts/bars-figure.js'
import { Controls } from '../../parts/knobs.js'
import { Lesson } from '../../parts/lesson.js'
import { Trouble } from '../../parts/trouble.js'
import { useAnswer } from '../../work/answer.js'
import { ask } from '../../work/ask.js'
import type { JobText } from '../../work/jobs.js'

const text = defineText(
  {
    claim:
      'One device fails once in years, ten thousand of them several times a day, and one that fails stops all. A checkpoint bounds what is lost; saving too often costs time as well. The best interval lies between.',
    title: 'Useful share of the time, by how often it is saved',
    knobs: {
      devices: 'Devices',
      years: 'Years between failures of one',
      save: 'Seconds to save',
      restart: 'Minutes to restart',
    },
    minutes: (n: string) => `every ${n} min`,
    useful: 'useful',
    lost: 'saving, lost and repeated',
    interval: 'Saved',
    all: 'Time',
    caption: (mtbf: string, interval: string, share: string) =>
      `Some device fails every ${mtbf} h. Saved every ${interval} minutes, ${share} of the time is useful, which is the most there is.`,
    letters: 'C: seconds to save; M: seconds between failures of any device, that of one divided by their number.',
    question: 'With four times the devices: how many minutes apart should checkpoints be?',
    why: 'The interval falls with the square root of the time between failures: four times the devices halve it.',
    notice: [
      'Around the best interval the curve is flat: half or twice of it costs little, a tenth or ten times a lot.',
      'A save that runs beside the training makes C small, and all intervals better.',
      'What restarts fast loses less: copies in the memory of partner ranks save the way to the disk.',
    ],
    saved: 'What a checkpoint has to hold',
    savedWhat:
      'The update of one matrix, as a program prints it. What it reads and writes, weight, master copy and both moments, has to be saved; a gradient lives for one step.',
  },
  {
    claim:
      '单个设备几年才坏一次，一万个设备一天就坏好几次，而坏一个就全停。检查点限制了损失，存得太勤也要花时间，最好的间隔在两者之间。',
    title: '按保存频率看有效时间占比',
    knobs: {
      devices: '设备数',
      years: '单个设备的故障间隔（年）',
      save: '保存用时（秒）',
      restart: '重启用时（分钟）',
    },
    minutes: (n: string) => `每 ${n} 分钟`,
    useful: '有效',
    lost: '保存、丢失和重做',
    interval: '保存',
    all: '时间',
    caption: (mtbf: string, interval: string, share: string) =>
      `每 ${mtbf} 小时就有一个设备故障。每 ${interval} 分钟保存一次，有效时间占 ${share}，这已是最好。`,
    letters: 'C：保存用时（秒）；M：任一设备故障的间隔（秒），等于单个设备的间隔除以设备数。',
    question: '设备变为四倍，检查点应隔多少分钟？',
    why: '间隔按故障间隔的平方根变化：设备变为四倍，间隔减半。',
    notice: [
      '最佳间隔附近曲线很平：减半或加倍影响不大，十分之一或十倍就差得多。',
      '与训练同时进行的保存让 C 变小，所有间隔都更好。',
      '重启越快损失越小：在伙伴 rank 的内存里留副本，就省了走磁盘。',
    ],
    saved: '检查点里要存什么',
    savedWhat: '一个矩阵的更新，程序原文。它读写的权重、主权重、动量和方差都要保存；梯度只活一步。',
  },
)

const table = {
  devices: oneOf([8, 64, 512, 4096, 16384], 4096),
  years: oneOf([1, 3, 6, 12], 6),
  save: oneOf([1, 10, 60, 300], 60),
  restart: oneOf([1, 5, 15, 60], 15),
}

/** A job of so many ranks: when devices fail depends on their number alone. */
const jobOn = (devices: number): JobText => ({
  model: 'llama3-8b',
  training: { seq: 8192, globalBatch: devices },
  plan: { dp: devices, zero: 1, precision: 'bf16' },
})

export default function Faults() {
  const knobs = readKnobs(table)
  const { devices, years, save, restart } = knobs.chosen
  const input = { devices, mtbf: years * 365.25 * 86_400, checkpoint: save, restart: restart * 60 }
  const { value, refusal, pending } = useAnswer('fast', ['measures', 'faults'], input)
  const code = useAnswer('fast', ['memory', 'updateLines'], { recipe: '18' }).value
  const words = text()
  const job = jobOn(devices)
  const failing = `--mtbf ${years * 8766}h --checkpoint ${save}s --restart ${restart}min`
  const minutes = (interval: number) => short(interval / 60)
  const caption = value
    ? words.caption(short(value.best.mtbf / 3600), minutes(value.best.interval), percent(value.best.share))
    : ''
  const bars = (value?.curve ?? []).map(({ interval, share }) => ({
    label: words.minutes(minutes(interval)),
    parts: [
      { name: words.useful, value: share, kind: 'W' },
      { name: words.lost, value: 1 - share, kind: 'B' },
    ],
    note: percent(share),
  }))
  return (
    <Lesson
      name="faults"
      claim={words.claim}
      controls={
        <Controls
          knobs={knobs}
          labels={{
            devices: { label: words.knobs.devices },
            years: { label: words.knobs.years },
            save: { label: words.knobs.save },
            restart: { label: words.knobs.restart },
          }}
        />
      }
      figure={
        <>
          {refusal && <Trouble why={refusal} />}
          <BarsFigure
            title={words.title}
            caption={caption}
            bars={bars}
            show={percent}
            head={[words.interval, words.all]}
            pending={pending}
          />
        </>
      }
      sentence={caption}
      formula={{
        math: {
          en: tex`t_{\text{best}} \approx \sqrt{2\,C\,M} = \class{live}{\text{young}}`,
          zh: tex`t_{\text{最佳}} \approx \sqrt{2\,C\,M} = \class{live}{\text{young}}`,
        },
        live: value ? { young: seconds(value.best.young) } : {},
        letters: words.letters,
      }}
      guess={{
        question: words.question,
        run: async () =>
          (await ask('fast', ['measures', 'faults'], { ...input, devices: 4 * devices })).best.interval / 60,
        show: short,
        why: () => words.why,
        min: 0,
      }}
      notice={words.notice}
      listings={code ? [{ title: words.saved, what: words.savedWhat, code: code.join('\n'), open: true }] : []}
      open={{ plan: planQuery(job, 'h100') }}
      command={onJob(job, `simulate - --cluster h100 ${failing}`)}
      says={value && { field: 'failures.share', value: value.best.share }}
    />
  )
}
