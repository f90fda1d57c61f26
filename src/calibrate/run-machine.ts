/** The machine that a run of the engine ran on, as a cluster, from what the run measured. */
import type { Cluster } from '../cluster/index.js'
import type { Program } from '../ir/index.js'
import type { Host } from './calibration.js'
import { machineCluster } from './machine.js'
import { merged } from './observe.js'
import { workOfRun } from './run-work.js'
import type { RunTimes } from './times.js'

export function machineOfRun(program: Program, times: RunTimes, host: Host, devices: number): Cluster {
  const { cpu, cores, memory } = host
  const title = `${cpu}, ${cores} cores`
  const machine = { ...{ title, cores, memory, kernels: 'as they ran' }, date: new Date().toISOString().slice(0, 10) }
  const { kernels, collectives } = workOfRun(program, times)
  return machineCluster(machine, merged(kernels), collectives, devices)
}
