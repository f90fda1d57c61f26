/**
 * How the folder is started: torchrun on one node and on several, Slurm, Kubernetes. What the job calls itself is
 * written as a literal of the language it stands in, or cut down to letters where there is none.
 */
import { printable } from '../base/index.js'
import type { Run } from './run.js'

/** Devices of a node, if nobody says otherwise. */
const perNode = 8

export function launchers(run: Run, world: number): Record<string, string> {
  return {
    'launch.sh': launchScript(run, world),
    'slurm.sbatch': slurmScript(run, world),
    'kubernetes.yaml': kubernetesJob(run, world),
  }
}

/** A word for the shell, whatever is in it; it knows no zero byte. */
export const shellQuote = (text: string): string => `'${text.replaceAll('\0', '').replaceAll("'", `'\\''`)}'`

/** Letters, digits, dots and dashes only: for names that know no quotes. */
export const slug = (text: string, most = 60): string =>
  text
    .replace(/[^A-Za-z0-9.-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, most)
    .replace(/[^A-Za-z0-9]+$/, '') || 'lockstep'

const dnsLabel = (text: string): string => slug(slug(text).toLowerCase().replaceAll('.', '-'), 50)

/** A double-quoted scalar of YAML: JSON is one. Line separators that only YAML knows are escaped too. */
const yamlQuote = (text: string): string =>
  JSON.stringify(text).replace(/[\u007f-\uffff]/g, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)

function launchScript(run: Run, world: number): string {
  return `#!/bin/sh
# Starts all ranks of one node, with torchrun. On one machine:
#   sh launch.sh
# On several, on each of them with its own NODE_RANK (the folder at the same path everywhere):
#   NNODES=4 NODE_RANK=0 MASTER_ADDR=host-of-node-0 sh launch.sh
# What follows is given to train.py (--help lists it): sh launch.sh --steps 10
# With --elastic all ranks start again from the newest checkpoint when one is lost.
set -eu
cd "$(dirname "$0")"
RUN=${shellQuote(printable(run.title))}
WORLD="\${WORLD:-${world}}"
NNODES="\${NNODES:-1}"
NODE_RANK="\${NODE_RANK:-0}"
MASTER_ADDR="\${MASTER_ADDR:-127.0.0.1}"
MASTER_PORT="\${MASTER_PORT:-29400}"
PYTHON="\${PYTHON:-python3}"
if [ $((WORLD % NNODES)) -ne 0 ]; then
  echo "lockstep: $RUN: $WORLD ranks cannot be laid evenly on $NNODES nodes" >&2
  exit 2
fi
# One core's worth of threads a rank, unless somebody knows better: ranks share the node's cores.
export OMP_NUM_THREADS="\${OMP_NUM_THREADS:-1}"
# Freed memory serves requests of any size: what is planned is what is taken.
export PYTORCH_CUDA_ALLOC_CONF="\${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
# Seconds in which all nodes, and then all ranks, must have come.
RENDEZVOUS="\${RENDEZVOUS:-600}"
PER_NODE=$((WORLD / NNODES))
ELASTIC=
for word in "$@"; do
  if [ "$word" = --elastic ]; then ELASTIC=--elastic; fi
done
# With underscores: PyTorch 1.13 knows no other names.
"$PYTHON" -m runtime.torchrun $ELASTIC --nnodes="$NNODES" --node_rank="$NODE_RANK" --nproc_per_node="$PER_NODE" \\
  --master_addr="$MASTER_ADDR" --master_port="$MASTER_PORT" --rdzv_conf timeout="$RENDEZVOUS" \\
  train.py --rendezvous "$RENDEZVOUS" "$@" &
torchrun=$!
asked=0
trap 'asked=130; kill -INT "$torchrun"' INT
trap 'asked=143; kill -TERM "$torchrun"' TERM
status=0
wait "$torchrun" || status=$?
if [ "$asked" -ne 0 ]; then
  # A signal ends the wait, not the ranks: a run with --save first writes a checkpoint.
  wait "$torchrun" || true
  exit "$asked"
fi
if [ "$status" -ne 0 ]; then
  FIRST=$((NODE_RANK * PER_NODE))
  echo "lockstep: node $NODE_RANK (ranks $FIRST to $((FIRST + PER_NODE - 1))): torchrun ended with exit code $status;" \\
    "if no rank has spoken, not all $NNODES nodes met at $MASTER_ADDR:$MASTER_PORT within $RENDEZVOUS s" >&2
fi
exit "$status"
`
}

function slurmScript(run: Run, world: number): string {
  const nodes = Math.ceil(world / perNode)
  return `#!/bin/sh
#SBATCH --job-name=${slug(run.title)}
#SBATCH --nodes=${nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=${Math.ceil(world / nodes)}
#SBATCH --exclusive
# sbatch slurm.sbatch, from this folder, which every node must see. Each node runs launch.sh once.
set -eu
cd "\${SLURM_SUBMIT_DIR:-$(dirname "$0")}"
export NNODES="$SLURM_NNODES"
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
export MASTER_ADDR
exec srun --kill-on-bad-exit=1 sh -c 'NODE_RANK="$SLURM_NODEID" exec sh launch.sh "$@"' launch "$@"
`
}

function kubernetesJob(run: Run, world: number): string {
  const nodes = Math.ceil(world / perNode)
  const gpus = Math.ceil(world / nodes)
  const replica = (name: string, replicas: number) => `    ${name}:
      replicas: ${replicas}
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: pytorch/pytorch:latest
              # The operator's RANK and WORLD_SIZE count pods; torchrun counts the ranks in them.
              command: ["sh", "-c", "NNODES=$WORLD_SIZE NODE_RANK=$RANK exec sh /run/lockstep/launch.sh"]
              resources:
                limits:
                  nvidia.com/gpu: ${gpus}
              volumeMounts:
                - { name: run, mountPath: /run/lockstep }
          volumes:
            - name: run
              # The claim that holds this folder.
              persistentVolumeClaim: { claimName: ${dnsLabel(run.title)} }`
  return `# A PyTorchJob of the Kubeflow training operator: kubectl apply -f kubernetes.yaml
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: ${dnsLabel(run.title)}
  annotations:
    lockstep/title: ${yamlQuote(run.title)}
spec:
  pytorchReplicaSpecs:
${[replica('Master', 1), ...(nodes > 1 ? [replica('Worker', nodes - 1)] : [])].join('\n')}
`
}
