/** Flags, wherever they were found. */
import type { FlagValue } from './argv.js'

export interface Found {
  readonly values: ReadonlyMap<string, FlagValue | boolean>
  readonly remarks: readonly { readonly name: string; readonly message: string }[]
  readonly lineOf: (name: string) => number | undefined
  readonly world?: { readonly ranks: number; readonly how: string }
  /** ms-swift's defaults. */
  readonly fork?: 'swift'
  /** Of a log: what is not asked for is what everybody has. */
  readonly resolved?: true
  readonly read: (path: string) => string | undefined
}
