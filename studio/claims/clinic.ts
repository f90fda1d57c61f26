/** Sick runs: what is out of memory, what diverges, what waits, and what never comes. */
import type { Program } from 'lockstep'
import { claim, yesIf } from './claim.js'
import { eight, mlp, seven, tiny } from './jobs.js'
import { type JobText, onJob } from './lab.js'

type Segment = Program['segments'][string]
type Instr = Segment['instrs'][number]

/** The program without some of its instructions. */
const without = (program: Program, isGone: (instr: Instr, segment: Segment) => boolean): Program => ({
  ...program,
  segments: Object.fromEntries(
    Object.entries(program.segments).map(([name, segment]) => [
      name,
      { ...segment, instrs: segment.instrs.filter(instr => !isGone(instr, segment)) },
    ]),
  ),
})

const isGradientSum = (instr: Instr, { name, phase }: Segment): boolean =>
  instr.kind === 'all-reduce' && phase === 'reduce' && !name.startsWith('sum ')

const uneven: JobText = {
  ...eight(4),
  plan: { ...eight(4).plan, layers: [7, 7, 7, 11] },
}

export const clinic = [
  claim({
    id: 'out-of-memory-means-divergence',
    notes: ['E6.1'],
    page: 'clinic',
    disputed: true,
    text: {
      en: 'A run that does not converge shows as CUDA out of memory.',
      zh: '训练不收敛的表现是 CUDA out of memory。',
    },
    units: { growth: 'times', grown: 'bytes' },
    numbers: lab => {
      const job = mlp({ dp: 2 })
      const losses = lab.losses(job, 1, 6)
      const bytes = (text: JobText) => Object.values(lab.bytes(text)).reduce((a, b) => a + b, 0)
      const fast = { ...job, training: { ...job.training, optimizer: { kind: 'adamw', lr: 1 } } }
      return { growth: losses[5] / losses[0], grown: bytes(fast) - bytes(job) }
    },
    holds: ({ growth, grown }) => (growth > 10 && grown === 0 ? 'no' : yesIf(grown > 0)),
    say: v => ({
      en: `They have nothing to do with each other: with a learning rate 1,000 times too large the loss grows ${v.growth} in six steps, and the memory of a rank changes by ${v.grown}.`,
      zh: `两者毫无关系：学习率大 1000 倍，六步之内损失变为 ${v.growth}，而每个 rank 的内存变化是 ${v.grown}。`,
    }),
    command: onJob(mlp({ dp: 2 }), 'memory -'),
  }),
  claim({
    id: 'out-of-memory-before-the-run',
    notes: ['E6.1'],
    page: 'clinic',
    text: {
      en: 'Out of memory can be known before the run, with what takes it, and recomputation or ZeRO repairs it.',
      zh: '显存不够在运行前就能知道，也知道是什么占的；用重计算或 ZeRO 可以修好。',
    },
    units: { device: 'bytes', before: 'bytes', after: 'bytes' },
    numbers: lab => {
      const arena = (job: JobText) => Math.max(...lab.program(job).streams.map(({ arena }) => arena))
      return {
        device: lab.core.clusterOf('h100', 8).device.memory,
        before: arena(seven({ dp: 8 })),
        after: arena(seven({ dp: 8, zero: 1 })),
      }
    },
    holds: ({ device, before, after }) => yesIf(before > device && after < device),
    say: v => ({
      en: `7B on 8 H100 of ${v.device}: ${v.before} a rank as copies, ${v.after} with ZeRO-1, before anything has run.`,
      zh: `7B、8 张 ${v.device} 的 H100：各存一份时每卡 ${v.before}，ZeRO-1 为 ${v.after}，都在运行之前得知。`,
    }),
    command: onJob(seven({ dp: 8, deviceMemory: '80GiB' }), 'check -'),
  }),
  claim({
    id: 'one-slow-rank',
    notes: ['E6.1'],
    page: 'clinic',
    text: {
      en: 'One slow rank slows all: the others wait for it in every collective.',
      zh: '一个慢 rank 拖慢全部：其他 rank 在每次集合通信里都要等它。',
    },
    units: { even: 'seconds', slowed: 'seconds', more: 'share', waiting: 'share' },
    numbers: lab => {
      const [even, slowed] = [{}, { slow: { 3: 1.3 } }].map(options =>
        lab.step(seven({ dp: 8, zero: 1 }), 'h100', options),
      )
      const more = slowed.seconds / even.seconds - 1
      return { even: even.seconds, slowed: slowed.seconds, more, waiting: slowed.shares.stragglers }
    },
    holds: ({ more, waiting }) => yesIf(more > 0.2 && waiting > 0.1),
    say: v => ({
      en: `One of 8 H100 30 % slower: a step takes ${v.slowed} instead of ${v.even}, ${v.more} more, and ranks wait ${v.waiting} of it for the slow one.`,
      zh: `8 张 H100 里有一张慢 30%：每步 ${v.slowed}，原来 ${v.even}，多 ${v.more}；其中 ${v.waiting} 是在等那张慢卡。`,
    }),
    command: onJob(seven({ dp: 8, zero: 1 }), 'simulate - --cluster h100 --slow 3:1.3'),
  }),
  claim({
    id: 'uneven-stages',
    notes: ['E6.1'],
    page: 'clinic',
    text: {
      en: 'A stage with more layers than the others holds up the whole pipeline.',
      zh: '某一级的层数比别的多，整条流水线都会被它拖住。',
    },
    units: { even: 'seconds', uneven: 'seconds', more: 'share' },
    numbers: lab => {
      const [even, other] = [eight(4), uneven].map(job => lab.step(job, 'h100').seconds)
      return { even, uneven: other, more: other / even - 1 }
    },
    holds: ({ more }) => yesIf(more > 0.1),
    say: v => ({
      en: `8B in four stages: ${v.even} a step with 8 layers each, ${v.uneven} with 7, 7, 7 and 11: ${v.more} more.`,
      zh: `8B 分四级：每级 8 层时每步 ${v.even}，按 7、7、7、11 分时 ${v.uneven}，多 ${v.more}。`,
    }),
    command: onJob(uneven, 'simulate - --cluster h100'),
  }),
  claim({
    id: 'missing-all-reduce-is-named',
    notes: ['E6.1'],
    page: 'clinic',
    text: {
      en: 'Gradients that nobody sums make copies drift apart without an error; a law names them before the run.',
      zh: '漏掉梯度求和不会报错，各份参数会悄悄跑偏；定律在运行前就能点名。',
    },
    units: { fine: 'count', named: 'count', gradients: 'count' },
    numbers: lab => {
      const program = lab.program(mlp({ dp: 2 }))
      const violations = lab.core.verify(without(program, isGradientSum))
      const named = violations.filter(({ message }) => message.includes('sum:dp')).length
      return { fine: lab.core.verify(program).length, named, gradients: violations.length }
    },
    holds: ({ fine, named }) => yesIf(fine === 0 && named > 0),
    say: v => ({
      en: `Violations of the program as compiled: ${v.fine}. Without its all-reduce: ${v.gradients}, of which ${v.named} name a gradient that is read whole and was written as a sum still to be made.`,
      zh: `原程序违反定律数：${v.fine}；去掉 all-reduce 之后：${v.gradients}，其中 ${v.named} 条点名某个梯度尚未求和就被当作完整值读取。`,
    }),
    command: onJob(mlp({ dp: 2 }), 'verify -'),
  }),
  claim({
    id: 'hang-is-named',
    notes: ['E6.1'],
    page: 'clinic',
    text: {
      en: 'A message that is never sent hangs the run; a law names the receiver that would wait, before the run.',
      zh: '没人发送的消息会让训练卡死；定律在运行前就能点出谁会一直等下去。',
    },
    units: { fine: 'count', lost: 'count', named: 'count' },
    numbers: lab => {
      const program = lab.program(tiny({ pp: 2, microbatches: 2 }))
      const streams = program.streams.map((stream, pp) =>
        pp > 0 ? stream : { ...stream, steps: stream.steps.filter(({ kind }) => kind !== 'send') },
      )
      const violations = lab.core.verify({ ...program, streams })
      return {
        fine: lab.core.verify(program).length,
        lost: violations.length,
        named: violations.filter(({ message }) => /recv .* has no send/.test(message)).length,
      }
    },
    holds: ({ fine, named }) => yesIf(fine === 0 && named > 0),
    say: v => ({
      en: `Violations as compiled: ${v.fine}. Without the sends of the first stage: ${v.lost}, and ${v.named} of them name the receive that has no send.`,
      zh: `原程序违反定律数：${v.fine}；去掉第一级的发送之后：${v.lost}，其中 ${v.named} 条指出某个接收没有对应的发送。`,
    }),
    command: onJob(tiny({ pp: 2, microbatches: 2 }), 'verify -'),
  }),
]
