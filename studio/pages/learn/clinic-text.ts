/** What the clinic says of its five patients. */
import { defineText } from '../../base/language.js'

export const text = defineText(
  {
    patient: 'Patient',
    patients: {
      memory: 'out of memory',
      lr: 'loss is not a number',
      sum: 'ranks drift apart',
      slow: 'slower than it should be',
      hang: 'stands still',
    },
    needThreads: 'Only threads can wait for each other, and this page may have none here: the law still names it.',
    memory: {
      claim:
        'A run that dies with “out of memory” was doomed before it began: the compiled program knows its peak to the byte, what it is made of, and which other plans of the same ranks would fit.',
      zero: 'ZeRO',
      recompute: 'Recompute',
      policies: { none: 'nothing', selective: 'selective', full: 'everything' },
      title: 'What a rank of 7B on 8 H100 needs at its peak',
      label: 'needed',
      limit: 'memory of an H100',
      over: (arena: string, capacity: string, over: string) =>
        `It needs ${arena} where a device has ${capacity}: ${over} too much.`,
      fits: (arena: string, capacity: string, step: string) =>
        `It needs ${arena} of ${capacity}; a step takes ${step}.`,
      most: (kind: string, bytes: string) => `The largest part is ${kind}, ${bytes}.`,
      head: ['Kind', 'Bytes'],
      repairs: 'Plans of the same ranks that fit; each button applies itself',
      repair: (zero: number, policy: string, arena: string, step: string) =>
        `ZeRO-${zero}, recompute ${policy}: ${arena}, ${step} a step`,
      question: 'How much of its memory does a rank save by ZeRO-1 alone, in GiB?',
      why: 'The optimizer’s state is 12 of 18 bytes a parameter, and ZeRO-1 leaves an eighth of it.',
      notice: [
        'What does not fit without ZeRO is mostly optimizer state: making the batch smaller would not help.',
        'ZeRO-1 repairs it and makes the step faster: each rank updates an eighth of the parameters.',
        'Recomputation alone would not be enough; activations are the smaller part here.',
      ],
    },
    lr: {
      claim:
        'A learning rate that is too high does not look like a crash: the loss climbs, then it is not a number any more. The engine runs such a step again, a command at a time, and names the first number that is not finite.',
      lr: 'Learning rate',
      title: 'Loss of a small model, trained here on two ranks',
      step: 'step',
      fine: (first: string, last: string, n: number) => `In ${n} steps the loss goes from ${first} to ${last}.`,
      ill: (step: number, where: string) => `Step ${step} is not finite: the first NaN or Inf is computed in ${where}.`,
      ended: 'The run ended',
      said: 'What the engine says',
      head: ['Step', 'Loss'],
      question: 'With a learning rate of 1,000, in which step is the loss no finite number any more?',
      why: 'Adam’s first step is as long as the learning rate, whatever the gradient: the second forward pass meets weights of a thousand.',
      notice: [
        'Memory has nothing to do with it: the same program runs, with the same bytes, at every learning rate.',
        'A step whose gradient is not finite changes nothing: parameters stay as the last good step left them, and three in a row end the run.',
        'The cause is named with rank, layer, instruction and the sizes of its operands, not just “NaN”.',
      ],
    },
    sum: {
      claim:
        'If one all-reduce is missing, nothing crashes: every rank goes its own way, and the loss even falls for a while. Laws read the program before it runs and name each gradient that is used before it was summed.',
      title: 'The all-reduce of the gradients, taken out of the program',
      caption: (before: number, after: number) =>
        `As compiled the program breaks ${before} laws; without its all-reduce there are ${after} violations.`,
      gone: 'Taken out',
      head: ['Law', 'Where', 'What it says'],
      question:
        'How many gradients does the law name? (Four layers with two matrices and two biases each, and an input matrix.)',
      why: 'One all-reduce carried all of them in one bucket; each is named where the norm of the gradient first reads it.',
      notice: [
        'A layout says what a rank holds: “sum:dp” is an addend, and no instruction may read it as if it were the sum.',
        'The law needs no data and no second rank: it reads types, so it costs milliseconds.',
        'The loss alone would not have told: two ranks that drift apart still learn.',
      ],
    },
    slow: {
      claim:
        'A rank that is a little slower, or a stage with more layers, holds up all the others. The ones that wait look idle; the one to blame is the one that never does.',
      slow: 'Rank 2 takes',
      layers: 'Layers of each stage',
      split: (layers: string) => (layers === 'even' ? '8 each' : layers.replaceAll(',', ', ')),
      title: '8B in four stages on 8 H100: where each stage spends its step',
      stage: (n: number) => `stage ${n}`,
      parts: { compute: 'compute', waiting: 'waiting', talking: 'communication', rest: 'rest' },
      caption: (step: string, even: string, more: string, busy: number) =>
        `A step takes ${step} instead of ${even}, ${more} more; stage ${busy} waits least, so it is the one to look at.`,
      healthy: (step: string) => `A step takes ${step}; all stages wait about as long.`,
      head: ['Stage', 'Compute', 'Waiting', 'Communication', 'Rest'],
      repair: 'Give every stage 8 layers',
      question: 'Rank 2 is 1.3 times as slow. By how many per cent is the step longer?',
      why: 'In a pipeline every microbatch passes the slow stage, so nearly all of the delay is paid by everybody.',
      notice: [
        'Utilisation of the waiting ranks falls, though nothing is wrong with them.',
        'Data parallel copies of the slow rank wait as well: gradients are summed over both.',
        'The last stage also has the head: with 8 layers each it is the slowest already.',
      ],
    },
    hang: {
      claim:
        'A run that stands still says nothing by itself. A message that is never sent is named before the run by the law that every receive has its send, and during a run by the engine: who waits for whom, and in which instruction.',
      title: 'The sends of the first stage, taken out of the program',
      caption: (before: number, after: number) =>
        `As compiled the program breaks ${before} laws; without its sends there are ${after} violations.`,
      gone: 'Taken out',
      head: ['Law', 'Where', 'What it says'],
      runTitle: 'The same in a run',
      run: 'Lose a message in step 2',
      running: 'Running …',
      said: 'What the engine says after two seconds without progress',
      question: 'How many violations are there?',
      why: 'One names the receive that would wait for ever; the others name waits for sends that nobody started.',
      notice: [
        'The law names the receive that would wait: “recv F0.0 x has no send”.',
        'In a run, time-outs go by what the very commands took before; here they are two seconds.',
        'The engine’s report has a line for each rank, so the one that all the others wait for is easy to see.',
      ],
    },
  },
  {
    patient: '病人',
    patients: {
      memory: '显存不够',
      lr: '损失变成 NaN',
      sum: '各 rank 悄悄跑偏',
      slow: '比应有的慢',
      hang: '卡住不动',
    },
    needThreads: '只有线程之间才会互相等待，而这个页面在这里用不了线程；定律照样能点名。',
    memory: {
      claim:
        '以“out of memory”告终的训练，在开始之前就注定了：编译出的程序精确知道峰值是多少字节、由什么构成，以及同样这些 rank 换成哪种方案就放得下。',
      zero: 'ZeRO',
      recompute: '重计算',
      policies: { none: '不重算', selective: '选择性', full: '全部' },
      title: '8 张 H100 上训练 7B，一个 rank 的峰值由什么构成',
      label: '需要',
      limit: '一张 H100 的显存',
      over: (arena: string, capacity: string, over: string) =>
        `需要 ${arena}，而一张卡只有 ${capacity}：超出 ${over}。`,
      fits: (arena: string, capacity: string, step: string) => `需要 ${arena}，一张卡有 ${capacity}；一步 ${step}。`,
      most: (kind: string, bytes: string) => `最大的一块是${kind}，${bytes}。`,
      head: ['种类', '字节'],
      repairs: '同样这些 rank 放得下的方案；点按钮即生效',
      repair: (zero: number, policy: string, arena: string, step: string) =>
        `ZeRO-${zero}，重计算：${policy}；${arena}，每步 ${step}`,
      question: '只用 ZeRO-1，一个 rank 能省下多少 GiB？',
      why: '每个参数 18 字节里有 12 字节是优化器状态，ZeRO-1 只留八分之一。',
      notice: [
        '不用 ZeRO 时放不下，主要是优化器状态：把 batch 调小没有用。',
        'ZeRO-1 治好了它，步子还更快：每个 rank 只更新八分之一的参数。',
        '单靠重计算不够；这里激活值是较小的一块。',
      ],
    },
    lr: {
      claim:
        '学习率太高并不像崩溃：损失先往上爬，然后就不再是数。引擎会把这一步重跑一遍，一条指令一条指令地看，点出第一个不是有限数的结果。',
      lr: '学习率',
      title: '一个小模型的损失，就在这里用两个 rank 训练',
      step: '第几步',
      fine: (first: string, last: string, n: number) => `${n} 步里损失从 ${first} 变到 ${last}。`,
      ill: (step: number, where: string) => `第 ${step} 步出现非有限数：最早出在 ${where}。`,
      ended: '训练中止',
      said: '引擎的说明',
      head: ['步', '损失'],
      question: '学习率为 1000 时，第几步的损失不再是有限数？',
      why: 'Adam 的第一步有多长只看学习率，与梯度大小无关：第二次前向就遇到上千的权重。',
      notice: [
        '这与显存无关：无论学习率多大，跑的是同一个程序，字节数也一样。',
        '梯度不是有限数的一步什么也不改：参数停在上一个好的步子，连续三步就中止。',
        '病因会说清 rank、层、指令和操作数的大小，而不只是一个“NaN”。',
      ],
    },
    sum: {
      claim:
        '少了一次 all-reduce 不会报错：每个 rank 各走各的，损失甚至还会降一阵。定律在运行之前就读程序，逐个点出还没求和就被使用的梯度。',
      title: '从程序里去掉梯度的 all-reduce',
      caption: (before: number, after: number) => `原程序违反定律 ${before} 处；去掉 all-reduce 之后有 ${after} 处。`,
      gone: '去掉的指令',
      head: ['定律', '所在', '说明'],
      question: '定律会点出多少个梯度？（四层，每层两个矩阵、两个偏置，再加一个输入矩阵。）',
      why: '一次 all-reduce 把它们装在一个桶里；求梯度范数时最先读到它们，就在那里逐个点名。',
      notice: [
        '布局说明一个 rank 手里是什么：“sum:dp”表示还只是一个加数，任何指令都不能当作总和来读。',
        '定律不需要数据，也不需要第二个 rank：它读的是类型，只花几毫秒。',
        '光看损失看不出来：两个跑偏的 rank 照样在学。',
      ],
    },
    slow: {
      claim:
        '一个 rank 稍慢，或者某一级层数多一些，就会拖住所有别的 rank。看上去闲着的是在等的，真正的病根是从不闲着的那个。',
      slow: 'rank 2 慢到几倍',
      layers: '每一级的层数',
      split: (layers: string) => (layers === 'even' ? '各 8 层' : layers.replaceAll(',', '、')),
      title: '8B 分四级，8 张 H100：每一级的一步花在哪里',
      stage: (n: number) => `第 ${n} 级`,
      parts: { compute: '计算', waiting: '等待', talking: '通信', rest: '其余' },
      caption: (step: string, even: string, more: string, busy: number) =>
        `一步 ${step}，原本 ${even}，多 ${more}；第 ${busy} 级等得最少，该看的就是它。`,
      healthy: (step: string) => `一步 ${step}；各级等待差不多。`,
      head: ['级', '计算', '等待', '通信', '其余'],
      repair: '改成每级 8 层',
      question: 'rank 2 慢到 1.3 倍，一步会长百分之几？',
      why: '流水线里每个微批次都要经过慢的那一级，所以这点耽搁几乎要由大家一起承担。',
      notice: [
        '在等的 rank 利用率下降，可它们自己什么毛病也没有。',
        '慢 rank 的数据并行副本也得等：梯度要在两者之间求和。',
        '最后一级还带着输出层：各 8 层时它本来就最慢。',
      ],
    },
    hang: {
      claim:
        '卡住的训练自己什么也不说。没人发送的消息，在运行前由“每个接收都有对应的发送”这条定律点名；运行中由引擎点名：谁在等谁，停在哪条指令。',
      title: '从程序里去掉第一级的发送',
      caption: (before: number, after: number) => `原程序违反定律 ${before} 处；去掉发送之后有 ${after} 处。`,
      gone: '去掉的指令',
      head: ['定律', '所在', '说明'],
      runTitle: '真跑一次',
      run: '让第 2 步丢一条消息',
      running: '正在运行……',
      said: '两秒没有进展之后，引擎这样说',
      question: '一共有几处违反定律？',
      why: '一处指出会永远等下去的接收，其余指出在等并没有发起的发送。',
      notice: [
        '定律点出会一直等的接收：“recv F0.0 x has no send”。',
        '运行时的超时取决于同样的指令以往用了多久；这里固定为两秒。',
        '引擎的报告里每个 rank 一行，大家都在等谁一眼可见。',
      ],
    },
  },
)
