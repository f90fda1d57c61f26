/**
 * The variants of the register tile that kernels/variant.c is compiled as. Which is fastest depends on the CPU, and on what
 * the compiler makes of it, so every build holds a handful and the machine it runs on times them
 * (src/engine/native/kernels/probe.ts). Their order is the order of preference: of those that are about as fast as the best, and
 * where nothing can be timed, the first of a target is taken.
 *
 * Sums, a row of b and what is read of a should fit the registers: avx512 has 32 of 64 bytes, avx2 16 of 32, arm64 32 of 16,
 * the others 16 of 16. `lanes`: four numbers of a are read at once, and each multiplies as a lane of its register, which
 * arm64 does in one instruction. `fetches`: so many steps of k ahead a and b are fetched; `fetchesNext`: and the next panel of b,
 * from beyond the second cache. `overwrites`: a result is fetched only where it is read; `spreads`: so many rows at
 * a time, while sums are taken. `flags`: gcc for arm64 schedules before it allots registers, and would spill.
 */
const neon = { bytes: 16, targets: ['arm64'], overwrites: true, flags: ['-fno-schedule-insns'] }
const x64 = { fetchesNext: true }
const avx512 = { ...x64, bytes: 64, targets: ['avx512'], spreads: 2 } // a row is several lines

export const variants = [
  { ...avx512, name: '8x48', rows: 8, vectors: 3 },
  { ...avx512, name: '6x64', rows: 6, vectors: 4 },
  { ...avx512, name: '12x32', rows: 12, vectors: 2 },
  { ...x64, name: '12x16', bytes: 32, rows: 12, vectors: 2, targets: ['avx512'] },
  { ...x64, name: '6x16', bytes: 32, rows: 6, vectors: 2, targets: ['avx2'] },
  { ...x64, name: '4x24', bytes: 32, rows: 4, vectors: 3, targets: ['avx2'] },
  { ...neon, name: '8x8-lanes', rows: 8, vectors: 2, lanes: true, fetches: 16 },
  { ...neon, name: '8x8-lanes-next', rows: 8, vectors: 2, lanes: true, fetches: 16, fetchesNext: true },
  { ...neon, name: '8x12-lanes', rows: 8, vectors: 3, lanes: true, fetches: 16 },
  { ...neon, name: '8x8', rows: 8, vectors: 2 },
  { name: '4x8', bytes: 16, rows: 4, vectors: 2, targets: ['portable', 'wasm'] },
  { name: '4x16', bytes: 16, rows: 4, vectors: 4, targets: ['wasm'] },
  { name: '4x8-lanes', bytes: 16, rows: 4, vectors: 2, lanes: true, targets: ['portable', 'wasm'] },
  { name: '4x16-lanes', bytes: 16, rows: 4, vectors: 4, lanes: true, targets: ['wasm'] },
]

/** What a compiler that defines these macros compiles for. */
export function targetOf(macros) {
  const has = name => macros.includes(`#define ${name} `)
  if (has('__AVX512F__')) return 'avx512'
  if (has('__AVX2__')) return 'avx2'
  return has('__aarch64__') ? 'arm64' : 'portable'
}

/** How wide a target's registers are. */
export const vectorBytes = { avx512: 64, avx2: 32, arm64: 16, portable: 16, wasm: 16 }

const symbolOf = ({ name }) => `variant_${name.replaceAll('-', '_')}`

/** What the compiler is told so that variant.c becomes this one. */
export const flagsOf = variant => [
  ...(variant.flags ?? []),
  `-DVARIANT=${symbolOf(variant)}`,
  `-DNAME=${variant.name}`,
  `-DVECTOR_BYTES=${variant.bytes}`,
  `-DTILE_ROWS=${variant.rows}`,
  `-DTILE_VECTORS=${variant.vectors}`,
  `-DREADS_LANES=${Number(variant.lanes ?? false)}`,
  `-DFETCHES=${variant.fetches ?? 0}`,
  `-DFETCHES_NEXT=${Number(variant.fetchesNext ?? false)}`,
  `-DOVERWRITES=${Number(variant.overwrites ?? false)}`,
  `-DSPREADS=${variant.spreads ?? 0}`,
]

/** What it is told so that variants.c lists them. */
export const listFlag = chosen => `-DVARIANTS=${chosen.map(variant => `X(${symbolOf(variant)})`).join(' ')}`
