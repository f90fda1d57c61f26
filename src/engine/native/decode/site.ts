/** From the ops of a decoder's pass to commands, by the rules that programs are lowered by: one rank, which holds all. */
import { type Dim, type DimPart, elementsOf } from '../../../base/index.js'
import { applyRule, type Buffer, type Ref } from '../../../ir/index.js'
import { type DecodePass, tokensIn } from '../../decode.js'
import type { CommandName } from '../lower/commands.js'
import { ListWriter } from '../lower/list.js'
import { placedOn, remembering } from '../lower/local.js'
import { rules } from '../lower/rules.js'
import type { Site } from '../lower/site.js'
import type { WordsOf } from '../lower/writer.js'

/** A command by the names of its words. */
export interface DecodeCommand {
  readonly name: CommandName
  readonly words: Readonly<Record<string, number | ArrayLike<number>>>
  /** What is put behind `past` rows of a cache, of so many bytes each: its `out` moves. */
  readonly rowBytes?: number
}

/** Takes commands down instead of writing them. */
class Recorder extends ListWriter {
  readonly commands: DecodeCommand[] = []

  override write<N extends CommandName>(name: N, words: WordsOf<N>): number {
    this.commands.push({ name, words: words as DecodeCommand['words'] }) // every word is a number, or a list of them
    return 0
  }
}

const nobody = (): never => {
  throw new Error('internal: a decoder has no other ranks')
}

/** `at`: the byte offset of a value. */
export function commandsOf({ values, ops }: DecodePass, at: (ref: Ref) => number): DecodeCommand[] {
  const list = new Recorder()
  const site = siteOf(
    list,
    ref => values[ref].dims,
    ref => values[ref].dtype,
    at,
  )
  for (const op of ops) {
    if (op.kind !== 'keep') {
      applyRule(rules, op, site)
      continue
    }
    const { dims } = values[op.in]
    const elements = elementsOf(dims)
    const words = {
      x: at(op.in),
      out: at(op.cache),
      rows: 1,
      columns: elements,
      strideX: elements,
      strideOut: elements,
    }
    list.commands.push({ name: 'copy', words, rowBytes: (4 * elements) / tokensIn(dims) })
  }
  return list.commands
}

function siteOf(
  list: Recorder,
  dimsOf: (ref: Ref) => readonly Dim[],
  dtypeOf: (ref: Ref) => 'f32' | 'i32',
  at: (ref: Ref) => number,
): Site {
  const layout = { splits: {}, partial: {} }
  const buffer = (ref: Ref): Buffer => ({ dims: dimsOf(ref), dtype: dtypeOf(ref), layout, role: 0, offset: 0 })
  const parts = (ref: Ref): DimPart[] => dimsOf(ref).map(({ size }) => ({ origin: 0, until: size, gap: 0 }))
  return {
    ...placedOn({ axes: [] }, {}),
    ...{ list, file: undefined, copier: undefined, seed: 0, block: '', param: '', rate: 0, open: new Map() },
    ...{ at, lies: at, buffer, parts, shape: ref => ({ dims: dimsOf(ref), whole: dimsOf(ref) }) },
    ...{ lying: () => ({ space: 'device', isWhole: true }), clear: nobody, fresh: () => false },
    ...{ input: () => undefined, join: nobody, landing: () => undefined, fused: () => undefined },
    ...{
      normWeights: () => undefined,
      panels: () => undefined,
      columns: () => undefined,
      merged: () => undefined,
      once: remembering(),
    },
  }
}
