/**
 * A process of its own: a rank of its engine waits in native code for another that never comes, and looks neither at the clock nor
 * at who asks it to stop. Prints what the step says, the milliseconds until the engine is stopped, and that another one runs.
 */
import { compileJob } from '../src/compile/index.js'
import { syntheticData } from '../src/engine/index.js'
import { commands, type LoweredProgram, opcodes, Pool, startEngine } from '../src/engine/native/index.js'
import { inputsOf } from '../src/geometry/index.js'
import { jobOf } from './jobs.js'

const program = compileJob(jobOf('mlp', { dp: 2 }))
const data = { inputs: syntheticData(inputsOf(program), 8, 1)(0), lr: 1e-3, step: 0 }
const neverLooks = 2 ** 31 - 8

function tamper({ lists, listAt }: LoweredProgram, memory: SharedArrayBuffer): void {
  new Float64Array(memory, listAt[0])[2 + commands.config.indexOf('spin')] = neverLooks
  new Float64Array(memory, listAt[1])[lists[1].starts.find(at => lists[1].words[at] === opcodes.start)!] = opcodes.end
}

const pool = new Pool()
const engine = await startEngine(program, { seed: 1, patienceMs: 200, pool, tamper })
await engine.step(data).catch((e: Error) => console.log(e.message.split('\n')[0]))
const started = performance.now()
await engine.stop()
console.log(performance.now() - started)
const other = await startEngine(program, { seed: 1, pool })
if (Number.isFinite((await other.step(data)).loss)) console.log('goes on')
await other.stop()
await pool.close()
process.exitCode = 7
