/** What the lesson on published runs says. */
import { defineText } from '../../base/language.js'

export const text = defineText(
  {
    run: 'Run',
    runs: {
      megatron: 'Megatron-LM, 1.7B to 1T',
      llama3: 'Llama 3 405B, 8k and 128k',
      deepseek: 'DeepSeek-V3',
      yi: 'Yi 34B',
      gemini: 'Gemini: a torus of TPUs',
      eras: 'One plan, many ways',
    },
    title: 'Step times: published, and ours',
    published: 'published',
    ours: 'ours',
    caption: (n: number, mean: string, worst: string, name: string) =>
      `Of ${n} published steps ours differ by ${mean} on average, by ${worst} at most (${name}).`,
    fitted: 'A star marks a row that a constant of the prices was fitted on.',
    head: ['Case', 'Devices', 'Plan', 'Sequence', 'Published', 'Ours', 'Differs by', 'FLOP/s of a device', 'Ours'],
    sources: 'Sources',
    lines: 'What ranks of such a plan say to each other',
    linesWhat: {
      megatron:
        'Our own program of the 39B row, tp 8, pp 2 and dp 32: whom rank 0 meets, and the instructions by which it does.',
      llama3: 'Our own program of tp 8, pp 16 and dp 128: whom rank 0 meets, and the instructions by which it does.',
      deepseek:
        'Our own program of a small model of this kind whose experts lie on eight ranks: tokens go out by all-dispatch and come back by all-combine.',
    },
    claim: {
      megatron:
        'Megatron-LM’s table is the rule of thumb in numbers: tensors to 8, inside the node, then stages, then copies. From 32 to 3,072 A100 each device works about as hard.',
      llama3:
        'Llama 3 405B was trained on 16,384 H100 with tensors, stages and copies; for 131,072 tokens a sequence is split over 16 ranks as well.',
      deepseek:
        'DeepSeek-V3 has 256 experts a layer: no tensors are split, experts are. Tokens go to the ranks of their experts and back.',
      yi: 'Yi, like DeepSeek’s dense models, was trained with ZeRO-1, tensors inside the node and stages between. No step of it was published: here is what ours would take on 64 A100.',
      gemini:
        'Gemini runs on TPUs, joined in a torus and not in nodes of eight. On a torus tensors can be split farther before the network gives out.',
    },
    yiTitle: 'Yi 34B on 64 A100 80 GB: four plans',
    yiCaption: (best: string, step: string, mfu: string) =>
      `The fastest that fits is ${best}: ${step} a step, MFU ${mfu}.`,
    yiNone: 'None of the four fits.',
    yiHead: ['Plan', 'Step', 'MFU', 'Waiting for tp', 'Bubble', 'Needs'],
    torusTitle: '70B on 64 devices: a step by width of tensor parallelism',
    torusCaption: (device: string, first: string, last: string, times: string) =>
      `On ${device} a step takes ${first} with tp 4 and ${last} with tp 32: ${times} times as long.`,
    fabric: 'Devices',
    fabrics: { h100: 'H100, nodes of 8', 'tpu-v5p': 'TPU v5p, a torus', gb200: 'GB200, racks of 72' },
    compute: 'the rest',
    waiting: 'waiting for tp',
    question: 'From tp 4 to tp 32 on H100: how many times as long does a step take?',
    why: 'Beyond eight ranks the all-gathers of every layer cross the network between nodes.',
    questionMean: 'By how many per cent do our prices differ from these published steps, on average?',
    whyMean: 'Prices know devices and links, not the run: what differs is what the software did besides.',
    notice: {
      megatron: [
        'tp stops at 8 in every row: beyond it would leave the node.',
        'pp grows only when tp 8 does not fit any more: 39B has 2 stages, 1T has 64.',
        'FLOP/s of a device stay between 135 and 165 T from 1.7B to 1T as published.',
      ],
      llama3: [
        'At 8k there is no cp; at 128k cp 16 takes from dp, and the batch with it.',
        'Sixteen stages with interleaving keep the bubble small with 16 to 32 microbatches.',
        'Of 400 TFLOP/s published, our prices find the same within a few per cent.',
      ],
      deepseek: [
        'tp is 1: experts are narrow, splitting them further would leave products too small.',
        'ep is 32 to 64: inside a rack of NVLink the exchange of tokens is affordable.',
        'A token meets 37B of 671B parameters, so memory, not arithmetic, asks for so many devices.',
      ],
      yi: [
        'The wider tp, the less memory a rank needs and the longer it waits.',
        'ZeRO-1 is what lets dp help: each rank keeps a share of the optimizer’s state.',
        'Nothing here is Yi’s own figure: the model’s sizes are public, its step is not.',
      ],
      gemini: [
        'On H100 the step doubles between tp 8 and tp 16: that is the edge of the node.',
        'On the torus it grows smoothly: every rank has links to its neighbours, wherever they are.',
        'Racks of 72 move the edge to 72, but their compute is so fast that waiting weighs more.',
      ],
    },
  },
  {
    run: '案例',
    runs: {
      megatron: 'Megatron-LM，1.7B 到 1T',
      llama3: 'Llama 3 405B，8k 与 128k',
      deepseek: 'DeepSeek-V3',
      yi: 'Yi 34B',
      gemini: 'Gemini：TPU 环面',
      eras: '同一方案，多种软件',
    },
    title: '每步用时：公布值与我们算出的',
    published: '公布',
    ours: '我们',
    caption: (n: number, mean: string, worst: string, name: string) =>
      `${n} 个公布的步时，我们平均差 ${mean}，最多差 ${worst}（${name}）。`,
    fitted: '带星号的行曾用来拟合价格里的某个常数。',
    head: ['案例', '设备', '方案', '序列', '公布', '我们', '相差', '每设备 FLOP/s', '我们'],
    sources: '来源',
    lines: '这样的方案里 rank 之间的指令',
    linesWhat: {
      megatron: '39B 那一行的方案（tp 8、pp 2、dp 32）编译成我们自己的程序：rank 0 和谁通信，用哪些指令。',
      llama3: 'tp 8、pp 16、dp 128 编译成我们自己的程序：rank 0 和谁通信，用哪些指令。',
      deepseek: '同类小模型的程序，专家分在八个 rank 上：token 由 all-dispatch 送出，由 all-combine 收回。',
    },
    claim: {
      megatron:
        'Megatron-LM 的表就是经验法则的数字版：张量切到 8、不出节点，然后切流水线，再做数据并行。从 32 张到 3072 张 A100，每张卡几乎一样忙。',
      llama3:
        'Llama 3 405B 用 16384 张 H100，张量、流水线、数据三种并行；序列长到 131072 时，再把一条序列切给 16 个 rank。',
      deepseek: 'DeepSeek-V3 每层 256 个专家：不切张量，切的是专家。token 要送到专家所在的 rank 再送回来。',
      yi: 'Yi 与 DeepSeek 的稠密模型一样，用 ZeRO-1、节点内张量并行、节点间流水线。它没有公布步时：下面是我们的程序在 64 张 A100 上要用的时间。',
      gemini: 'Gemini 跑在 TPU 上，互连是环面，而不是 8 卡一个节点。在环面上，张量可以切得更宽，网络才会吃不消。',
    },
    yiTitle: 'Yi 34B、64 张 A100 80 GB：四种方案',
    yiCaption: (best: string, step: string, mfu: string) => `放得下的里面最快的是 ${best}：一步 ${step}，MFU ${mfu}。`,
    yiNone: '四种都放不下。',
    yiHead: ['方案', '一步', 'MFU', '等待 tp', '气泡', '需要'],
    torusTitle: '70B、64 个设备：一步用时随张量并行宽度的变化',
    torusCaption: (device: string, first: string, last: string, times: string) =>
      `${device}：tp 4 一步 ${first}，tp 32 一步 ${last}，是前者的 ${times} 倍。`,
    fabric: '设备',
    fabrics: { h100: 'H100，8 卡一节点', 'tpu-v5p': 'TPU v5p，环面', gb200: 'GB200，72 卡机柜' },
    compute: '其余',
    waiting: '等待 tp',
    question: 'H100 上从 tp 4 到 tp 32，一步变成原来的几倍？',
    why: '超过 8 个 rank，每一层的 all-gather 都要走节点之间的网络。',
    questionMean: '我们算出的步时与这些公布值平均差百分之几？',
    whyMean: '价格只认识设备和链路，不认识那次训练：相差的是软件另外做的事。',
    notice: {
      megatron: [
        '每一行的 tp 都止于 8：再多就出节点了。',
        '只有 tp 8 也放不下时才增加 pp：39B 有 2 级，1T 有 64 级。',
        '按公布值，从 1.7B 到 1T，每张卡都在 135 到 165 TFLOP/s 之间。',
      ],
      llama3: [
        '8k 时没有 cp；128k 时 cp 16 是从 dp 里拿出来的，batch 也随之变小。',
        '16 级加交错调度，16 到 32 个微批次就能让气泡很小。',
        '公布的 400 TFLOP/s，我们的价格算出来相差不过百分之几。',
      ],
      deepseek: [
        'tp 为 1：专家本来就窄，再切矩阵乘就太小了。',
        'ep 为 32 到 64：在一个 NVLink 机柜里交换 token 还负担得起。',
        '一个 token 只经过 671B 里的 37B 参数，所以要这么多设备的是显存，不是计算。',
      ],
      yi: [
        '张量切得越多（tp），每个 rank 需要的显存越少，等得越久。',
        '有了 ZeRO-1，dp 才省显存：每个 rank 只存一份优化器状态中的一片。',
        '这里没有一个数字是 Yi 公布的：模型大小是公开的，步时不是。',
      ],
      gemini: [
        'H100 上，从 tp 8 到 tp 16 一步几乎翻倍：那里正是节点的边界。',
        '在环面上则平缓增长：每个 rank 到邻居都有链路，不论在哪里。',
        '72 卡机柜把边界推到 72，但它算得太快，等待就更显眼。',
      ],
    },
  },
)
