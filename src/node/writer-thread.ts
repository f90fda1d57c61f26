/** The thread that writes checkpoints: takes orders, one after the other. */
import { error, ProblemsError } from '../base/index.js'
import { platform } from '../platform/index.js'
import { type Order, write } from '../train/writing.js'
import { nodeFiles } from './files.js'
import type { FromWriter } from './writer.js'

const files = nodeFiles()

const tell = platform.listen<Order, FromWriter>(order => {
  try {
    write(order, files)
    tell({ problems: [] })
  } catch (e) {
    const problems = e instanceof ProblemsError ? e.problems : [error('run/write', '', messageOf(order, e))]
    tell({ problems })
  }
})

const messageOf = ({ folder }: Order, e: unknown): string =>
  `cannot write ${folder}: ${e instanceof Error ? e.message : String(e)}`
