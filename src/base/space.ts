/**
 * Where memory is. A rank computes in the device's and in the host's; the disk only keeps. What lies in one space gets to another
 * by a `move` and in no other way.
 */
export const spaces = ['device', 'host', 'disk'] as const
export type Space = (typeof spaces)[number]

/** Spaces other than that of the device, which is meant where none is said. */
export type Elsewhere = Exclude<Space, 'device'>
export const elsewheres = ['host', 'disk'] as const satisfies readonly Elsewhere[]

/** What a disk keeps begins at a multiple of so many bytes: files that bypass a system's cache are read and written in whole pages. */
export const diskPage = 4096
