/** The two products of an MLP on ranks that each hold a part of both matrices: the very numbers of the compiled program. */
import { boot, compileJob, inputsOf, type Program, serialJob, syntheticData } from 'lockstep'
import { type JobText, jobOf, programOf, pythonOf, segmentLines } from './jobs.js'

export interface Matrix {
  readonly rows: number
  readonly columns: number
  readonly values: readonly number[]
}

/** What one rank has: X whole, its columns of A, its rows of B, and what becomes of them. */
export interface TensorRank {
  readonly x: Matrix
  readonly a: Matrix
  readonly hidden: Matrix
  readonly b: Matrix
  /** A sum that lacks the other ranks'. */
  readonly partial: Matrix
  readonly y: Matrix
}

export interface TensorAnswer {
  readonly ranks: readonly TensorRank[]
  /** What one rank alone computes. */
  readonly whole: TensorRank
  /** The greatest difference of Y to that. */
  readonly apart: number
  /** Of the step that the numbers are of. */
  readonly loss: number
  readonly job: JobText
  readonly lines: readonly string[]
  readonly python: string
}

const sizes = { embed: 4, ffn: 8, seq: 2 }

const tensorJob = (tp: number): JobText => ({
  model: { family: 'mlp', layers: 1, embed: sizes.embed, ffn: sizes.ffn },
  training: { seq: sizes.seq, globalBatch: 1 },
  plan: { tp },
})

export function tensorParallel({ tp }: { readonly tp: number }): TensorAnswer {
  const job = tensorJob(tp)
  const program = programOf(job)
  const { ranks, loss } = layerOf(program, tp)
  const [whole] = layerOf(compileJob(serialJob(jobOf(job)), undefined, { verify: false }), 1).ranks
  const apart = Math.max(...ranks.flatMap(({ y }) => y.values.map((value, i) => Math.abs(value - whole!.y.values[i]!))))
  const layers = ['layers.F', 'layers.B']
  return {
    ...{ ranks, whole: whole!, apart, loss, job },
    lines: segmentLines(program, name => layers.includes(name)),
    python: pythonOf(program, name => name === 'layers_F' || name === 'layers_B'),
  }
}

type Name = keyof TensorRank

/** Reads what the forward pass of the layer computes, rank by rank. */
function layerOf(program: Program, tp: number): { readonly ranks: TensorRank[]; readonly loss: number } {
  const { embed, ffn } = sizes
  const columns: Readonly<Record<Name, number>> = {
    x: embed,
    a: ffn / tp,
    hidden: ffn / tp,
    b: embed,
    partial: embed,
    y: embed,
  }
  const seen = Array.from({ length: tp }, () => new Map<Name, readonly number[]>())
  const machine = boot(program, {
    seed: 1,
    observe({ rank, call, instr, read }) {
      if (call.segment !== 'layers.F') return
      const put = (name: Name, ref: string | undefined) => ref !== undefined && seen[rank]!.set(name, [...read(ref)])
      if (instr.kind === 'contract') {
        const first = !seen[rank]!.has('x')
        put(first ? 'x' : 'hidden', instr.ins[0])
        put(first ? 'a' : 'b', instr.ins[1])
        if (!first) put('partial', instr.outs[0])
        if (!first) put('y', instr.outs[0])
      }
      if (instr.kind === 'wait') put('y', instr.on)
    },
  })
  const data = syntheticData(inputsOf(program), 1, 1)
  const { loss } = machine.step({ inputs: data(0), lr: 0, step: 0 })
  const ranks = seen.map(values => {
    const matrix = (name: Name): Matrix => {
      const cells = values.get(name)!
      return { rows: cells.length / columns[name], columns: columns[name], values: cells }
    }
    return {
      x: matrix('x'),
      a: matrix('a'),
      hidden: matrix('hidden'),
      b: matrix('b'),
      partial: matrix('partial'),
      y: matrix('y'),
    }
  })
  return { ranks, loss }
}
