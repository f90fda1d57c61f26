/**
 * Launchers of an emitted folder: torchrun on one node or several, Slurm, Kubernetes. The job's name is quoted as each
 * language needs it, or reduced to letters and digits where names cannot be quoted.
 */
import { counted, printable } from '../base/index.js'
import type { Run } from './run.js'

/** GPUs per node that the Slurm and Kubernetes files ask for. */
export const devicesPerNode = 8

export function launchers(run: Run, world: number): Record<string, string> {
  return {
    'launch.sh': launchScript(run, world),
    'slurm.sbatch': slurmScript(run, world),
    'kubernetes.yaml': kubernetesJob(run, world),
  }
}

/** A single-quoted word of the shell, without NUL bytes, which a shell cannot hold. */
export const shellQuote = (text: string): string => `'${text.replaceAll('\0', '').replaceAll("'", `'\\''`)}'`

/** Letters, digits, dots and dashes only: for names that cannot be quoted. */
export const slug = (text: string, most = 60): string =>
  text
    .replace(/[^A-Za-z0-9.-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, most)
    .replace(/[^A-Za-z0-9]+$/, '') || 'lockstep'

const dnsLabel = (text: string): string => slug(slug(text).toLowerCase().replaceAll('.', '-'), 50)

/** A double-quoted scalar of YAML: JSON is one. Characters that only YAML treats as line breaks are escaped too. */
const yamlQuote = (text: string): string =>
  JSON.stringify(text).replace(/[\u007f-\uffff]/g, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)

function launchScript(run: Run, world: number): string {
  return `#!/bin/sh
# Starts the ranks of one node with torchrun; sh launch.sh --help describes it.
set -eu
cd "$(dirname "$0")"
RUN=${shellQuote(printable(run.title))}
WORLD="\${WORLD:-${world}}"
NNODES="\${NNODES:-1}"
NODE_RANK="\${NODE_RANK:-0}"
MASTER_ADDR="\${MASTER_ADDR:-127.0.0.1}"
MASTER_PORT="\${MASTER_PORT:-29400}"
PYTHON="\${PYTHON:-python3}"
require_torch() {
  "$PYTHON" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' && return
  echo "lockstep: $RUN: $PYTHON has no PyTorch: install it, or set PYTHON to a Python that has it" >&2
  exit 2
}
for word in "$@"; do
  if [ "$word" = --help ] || [ "$word" = -h ]; then
    cat <<'HELP'
Starts the ${counted(world, 'rank')} of this folder, one process per rank.

  sh launch.sh [options of train.py]
      all ranks on this machine: one GPU per rank, or none with --device cpu
  NNODES=4 NODE_RANK=0 MASTER_ADDR=host-of-node-0 sh launch.sh [options of train.py]
      on each node, with its own NODE_RANK and the folder at the same path

Environment:
  NNODES       nodes (1)
  NODE_RANK    number of this node, from 0 (0)
  MASTER_ADDR  host of node 0 (127.0.0.1)
  MASTER_PORT  its port (29400)
  WORLD        ranks in total (${world}); other numbers need a plan of their own: lockstep emit --also
  RENDEZVOUS   seconds within which all nodes, then all ranks, must arrive (600)
  PYTHON       a Python that has PyTorch (python3)

With --elastic all ranks restart from the latest checkpoint when one is lost.

Options of train.py:
HELP
    require_torch
    exec "$PYTHON" train.py --help
  fi
done
if [ $((WORLD % NNODES)) -ne 0 ]; then
  echo "lockstep: $RUN: WORLD=$WORLD ranks do not divide evenly by NNODES=$NNODES nodes" >&2
  exit 2
fi
require_torch
# One thread per rank by default: ranks share the cores of the node.
export OMP_NUM_THREADS="\${OMP_NUM_THREADS:-1}"
# Expandable segments keep the caching allocator from fragmenting, so memory use matches the plan.
export PYTORCH_CUDA_ALLOC_CONF="\${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}"
# Seconds within which all nodes, then all ranks, must arrive.
RENDEZVOUS="\${RENDEZVOUS:-600}"
PER_NODE=$((WORLD / NNODES))
ELASTIC=
for word in "$@"; do
  if [ "$word" = --elastic ]; then ELASTIC=--elastic; fi
done
# Underscores, because PyTorch 1.13 does not accept dashes.
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
  # A signal interrupts \`wait\`, not the ranks: with --save they write a checkpoint first.
  wait "$torchrun" || true
  exit "$asked"
fi
# 2: refused before any rank was started, and said so.
if [ "$status" -ne 0 ] && [ "$status" -ne 2 ]; then
  FIRST=$((NODE_RANK * PER_NODE))
  WHO="node $NODE_RANK (ranks $FIRST to $((FIRST + PER_NODE - 1)))"
  LATE="if no rank reported an error, a node of $NNODES did not arrive at $MASTER_ADDR:$MASTER_PORT within $RENDEZVOUS s"
  if [ "$NNODES" -eq 1 ]; then echo "lockstep: torchrun ended with exit code $status"
  else echo "lockstep: $WHO: torchrun ended with exit code $status; $LATE"
  fi >&2
fi
exit "$status"
`
}

function slurmScript(run: Run, world: number): string {
  const nodes = Math.ceil(world / devicesPerNode)
  return `#!/bin/sh
#SBATCH --job-name=${slug(run.title)}
#SBATCH --nodes=${nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=${Math.ceil(world / nodes)}
#SBATCH --exclusive
# Submit from this folder, which every node must be able to read: sbatch slurm.sbatch. Each node runs launch.sh once.
set -eu
cd "\${SLURM_SUBMIT_DIR:-$(dirname "$0")}"
export NNODES="$SLURM_NNODES"
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
export MASTER_ADDR
exec srun --kill-on-bad-exit=1 sh -c 'NODE_RANK="$SLURM_NODEID" exec sh launch.sh "$@"' launch "$@"
`
}

function kubernetesJob(run: Run, world: number): string {
  const nodes = Math.ceil(world / devicesPerNode)
  const gpus = Math.ceil(world / nodes)
  const replica = (name: string, replicas: number) => `    ${name}:
      replicas: ${replicas}
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: pytorch/pytorch:latest
              # RANK and WORLD_SIZE of the operator count pods; torchrun starts the ranks of each.
              command: ["sh", "-c", "NNODES=$WORLD_SIZE NODE_RANK=$RANK exec sh /run/lockstep/launch.sh"]
              resources:
                limits:
                  nvidia.com/gpu: ${gpus}
              volumeMounts:
                - { name: run, mountPath: /run/lockstep }
          volumes:
            - name: run
              # The persistent volume claim with this folder.
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
