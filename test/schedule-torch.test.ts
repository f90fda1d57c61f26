/** PyTorch's own loader, validator and simulator read our files. */
import { deepEqual, equal } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { scheduleFacts } from '../src/plan/index.js'
import { communicate, makeSchedule, printComms, printSchedule, scheduleNames } from '../src/schedule/index.js'
import { later } from './families.js'
import { findPython, noPython } from './python.js'

/** Loads both forms of every file through PyTorch's runtime; prints what it could not read. */
const script = `
import csv, glob, json, os, re, sys
from types import SimpleNamespace
from torch.distributed.pipelining import schedules as pipelining
Action, Runtime = pipelining._Action, pipelining._PipelineScheduleRuntime
message, marker = re.compile("SEND|RECV"), re.compile("SHARD|REDUCE")

def load(base, counts, form):
    stage = SimpleNamespace(num_stages=counts["stages"], group_size=counts["ranks"], group_rank=0, is_last=False)
    runtime = Runtime([stage], counts["microbatches"])
    runtime._load_csv(f"{base}.{form}.csv", format=form)
    return runtime

def check(base):
    counts = json.load(open(base + ".json"))
    lowered = load(base, counts, "compute_only").pipeline_order_with_comms
    runtime = load(base, counts, "compute_comms")
    ours = runtime.pipeline_order_with_comms
    for rank, row in enumerate(csv.reader(open(base + ".compute_comms.csv"))):
        assert [str(a) for a in ours[rank]] == row, "cells do not print back"
    for rank in ours:
        sends = [sorted(str(a) for a in rows[rank] if message.search(str(a))) for rows in (ours, lowered)]
        assert sends[0] == sends[1], f"rank {rank} has other messages"
    if not counts["pairs"]:
        plain = {r: [a for a in ours[r] if not marker.search(str(a))] for r in ours}
        pipelining._simulate_comms_compute(plain, lambda s: runtime.stage_index_to_group_rank[s], counts["stages"])

read, wrong = 0, []
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.json"))):
    try:
        check(path[:-5])
        read += 1
    except Exception as error:
        wrong.append(f"{os.path.basename(path)}: {type(error).__name__} {str(error)[:200]}")
print(json.dumps({"read": read, "wrong": wrong}))
`

/** PyTorch knows no stage that lives on two ranks, so DualPipe stays ours. */
const names = scheduleNames.filter(name => name !== 'dualpipe')
const sizes = [
  [1, 3],
  [2, 2],
  [4, 2],
  [4, 8],
  [3, 7],
] as const // ranks, microbatches

later(
  'PyTorch reads, validates and simulates every schedule we print',
  {
    skip: findPython() ? false : noPython,
  },
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'lockstep-schedules-'))
    try {
      for (const name of names)
        for (const [ranks, microbatches] of sizes) {
          const schedule = makeSchedule(name, { ranks, microbatches, chunks: scheduleFacts[name].chunks })
          const base = join(folder, `${name}_${ranks}_${microbatches}`)
          const pairs = schedule.rows.some(row => row.some(action => action.kind === 'overlap'))
          writeFileSync(`${base}.compute_only.csv`, printSchedule(schedule))
          writeFileSync(`${base}.compute_comms.csv`, printComms(communicate(schedule)))
          writeFileSync(`${base}.json`, JSON.stringify({ ranks, microbatches, stages: schedule.stages, pairs }))
        }
      const { stdout, stderr, status } = spawnSync(findPython()!, ['-c', script, folder], { encoding: 'utf8' })
      equal(status, 0, stderr)
      deepEqual(JSON.parse(stdout.trim().split('\n').at(-1)!), { read: names.length * sizes.length, wrong: [] })
    } finally {
      rmSync(folder, { recursive: true })
    }
  },
)
