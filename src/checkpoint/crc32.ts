/** The CRC-32 of zip and zlib, by tables: eight bytes at a time, as each of them would come out after those behind it. */
const tables = Array.from({ length: 8 }, () => new Uint32Array(256))

for (let byte = 0; byte < 256; byte++) {
  let sum = byte
  for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0xedb88320 : sum >>> 1
  tables[0][byte] = sum
}
for (let byte = 0; byte < 256; byte++)
  for (let i = 1; i < 8; i++) {
    const before = tables[i - 1][byte]
    tables[i][byte] = (before >>> 8) ^ tables[0][before & 0xff]
  }

const [t0, t1, t2, t3, t4, t5, t6, t7] = tables

export function crc32(bytes: Uint8Array): number {
  let sum = 0xffffffff
  let at = 0
  for (const last = bytes.length - 7; at < last; at += 8)
    sum =
      t7[(sum ^ bytes[at]) & 0xff] ^
      t6[((sum >>> 8) ^ bytes[at + 1]) & 0xff] ^
      t5[((sum >>> 16) ^ bytes[at + 2]) & 0xff] ^
      t4[((sum >>> 24) ^ bytes[at + 3]) & 0xff] ^
      t3[bytes[at + 4]] ^
      t2[bytes[at + 5]] ^
      t1[bytes[at + 6]] ^
      t0[bytes[at + 7]]
  for (; at < bytes.length; at++) sum = (sum >>> 8) ^ t0[(sum ^ bytes[at]) & 0xff]
  return (sum ^ 0xffffffff) >>> 0
}
