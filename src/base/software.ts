/** Who writes what others read later. The version is that of package.json. */
export const version = '0.1.0'

export const software = {
  engine: `lockstep ${version}, engine`,
  emitted: `lockstep ${version}, emitted PyTorch`,
} as const
