/** `lockstep bench`: what this machine does, piece by piece. Races against other software are in bench/. */
import type { Command } from 'commander'
import { registerBenchKernels } from './bench-kernels.js'
import type { Io } from './io.js'

export function registerBench(program: Command, io: Io, done: (code: number) => void): void {
  const bench = program.command('bench').description('measure this machine: kernels')
  registerBenchKernels(bench, io, done)
}
