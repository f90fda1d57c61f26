/** The page that lies in the folder: what it is, how to run it, what to expect. */
import { showBytes, worldOf } from '../base/index.js'
import { kinds, type Program } from '../ir/index.js'
import { heldBytes } from './held.js'
import type { Run } from './run.js'

/** Within a code span: one line, no tick that could end it. */
const code = (text: string): string => `\`${text.replace(/[`\s]+/g, ' ').slice(0, 200)}\``

/** `others`: numbers of ranks for which there are plans too. */
export function readme(program: Program, run: Run, others: readonly number[] = []): string {
  const world = worldOf(program.mesh)
  const axes = program.mesh.axes.filter(({ size }) => size > 1).map(({ name, size }) => `${name} ${size}`)
  return `# ${code(run.title)}

A training run of ${world} rank${world > 1 ? `s (${axes.join(' x ')})` : ''}, written by lockstep as PyTorch: ${run.steps} steps of
${run.globalBatch} sequences of ${run.seq} tokens.

## Run

    sh launch.sh                         all ranks on this machine (GPUs with NCCL, else CPU with gloo)
    NNODES=2 NODE_RANK=0 MASTER_ADDR=host sh launch.sh      on each node, with its own NODE_RANK
    sbatch slurm.sbatch                  Slurm
    kubectl apply -f kubernetes.yaml     Kubernetes (PyTorchJob)

    sh launch.sh --save saved --save-every 100              checkpoints: after 100, 200, ... steps and after the last
    sh launch.sh --resume saved          resumes from the last of them, whatever plan wrote it
    sh launch.sh --elastic --save-every 100                 goes on from the last of them when a rank is lost

${others.length > 0 ? `    WORLD=${others[0]} sh launch.sh --elastic          other numbers of ranks that it has plans for: ${others.join(', ')}\n\n` : ''}With --save, Ctrl-C and SIGTERM write a checkpoint before the run ends.

It needs PyTorch and this folder, nothing else. \`sh launch.sh --help\` lists what a run can be told.

## What is here

| file | what it is |
|---|---|
| \`stage*.py\` | what the ranks of a pipeline coordinate compute: one function per segment, one line per instruction |
| \`stage*.json\` | when they compute it: frames, calls, messages and waits, in order |
| \`program.json\` | mesh, process groups, parameters |
| \`run.json\` | steps, seed, learning rate, data |
| \`job.json\` | the job; checkpoints carry it, and the tokenizer where there is one |
${run.evaluation ? '| `evaluation/` | the forward alone, as a program of its own: the loss over held-out data |\n' : ''}${others.length > 0 ? '| `ranks-*/` | the same for other numbers of ranks; `train.py` takes what fits the number that is started |\n' : ''}| \`runtime/\` | the hand-written part, the same for every program |
| \`metrics.jsonl\`, \`about.json\` | once it has run: a line of JSON a step and one for every event, and which run it was |

## What to expect

${expectations(program, run)}
`
}

function expectations(program: Program, { expected }: Run): string {
  const used = kinds.filter(kind => program.streams.some(({ peak }) => peak[kind] > 0))
  const held = heldBytes(program)
  const rows = program.streams.map(
    ({ arena, peak }, pp) =>
      `| ${pp} | ${showBytes(held[pp])} | ${showBytes(arena)} | ${used.map(kind => showBytes(peak[kind])).join(' | ')} |`,
  )
  const time = expected
    ? `A step of ${expected.seconds.toPrecision(3)} s is predicted on ${code(expected.cluster)}.\n\n`
    : ''
  return `${time}Peak memory of a rank: what its tensors take in PyTorch, which takes gradients from their first addend on (its context, and NCCL, come
on top); and what the plan reserves, in all and by kind:

| pipeline rank | held | planned | ${used.join(' | ')} |
|---|---|---|${used.map(() => '---|').join('')}
${rows.join('\n')}`
}
