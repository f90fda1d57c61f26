/** The machine that a run of the engine ran on, as a cluster, from what the run measured. */
import type { Cluster } from '../cluster/index.js'
import type { Program } from '../ir/index.js'
import { type Host, titleOf } from './calibration.js'
import { machineCluster } from './machine.js'
import { merged } from './observe.js'
import { workOfRun } from './run-work.js'
import type { RunTimes } from './times.js'

export function machineOfRun(program: Program, times: RunTimes, host: Host, devices: number): Cluster {
  const { cores } = host
  // What it had, which the machine that asks need not have.
  const memory = times.memory === undefined ? host.memory : cores * times.memory
  const machine = {
    ...{ title: titleOf(host), cores, memory, kernels: 'as they ran' },
    date: new Date().toISOString().slice(0, 10),
  }
  const { kernels, collectives } = workOfRun(program, times)
  return machineCluster(machine, merged(kernels), collectives, devices)
}
