/** Disks that fail, to rehearse it: full ones, and files that are not what was written. */
import { type FaultOf, type Files, noRoom, within } from '../base/index.js'

export type DiskFault = FaultOf<'full-disk' | 'damage'>

/** Files of a disk on which the writes of a checkpoint find no room, where that is to happen. */
export const filesWith = (faults: readonly DiskFault[], files: Files): Files =>
  faults.some(({ kind }) => kind === 'full-disk')
    ? {
        ...files,
        write() {
          throw new Error(noRoom)
        },
      }
    : files

/** Changes the last byte of the first file of a checkpoint that matches, behind everybody's back. */
export function damageFiles(faults: readonly DiskFault[], path: string, files: Files): void {
  for (const fault of faults) {
    if (fault.kind !== 'damage') continue
    const [file] = (files.list(path) ?? []).filter(file => matches(fault.file, file.slice(within(path, '').length)))
    if (file === undefined) continue
    const bytes = files.readBytes(file).slice()
    bytes[bytes.length - 1] ^= 1
    files.write(file, bytes)
  }
}

/** As a shell does: `*` is any characters, `?` is one. */
function matches(pattern: string, file: string): boolean {
  const source = pattern
    .replace(/[\\^$.|+()[\]{}]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.')
  return new RegExp(`^${source}$`).test(file)
}
