/** What can run a program here: by its name on the command line. */
export const kernelNames = ['native', 'vectors', 'wasm', 'reference'] as const
export type KernelName = (typeof kernelNames)[number]
