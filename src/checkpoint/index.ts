export type { Numbers } from './box.js'
export { type Checkpoint, type Damage, NotFinite, type ReadFile, readCheckpoint, type Share } from './checkpoint.js'
export { cliquesOf, partnerOf, usualJump } from './cliques.js'
export { type Copies, type KeptPart, keptParts, openCopies } from './copies.js'
export { crc32 } from './crc32.js'
export { checkpointProblems, damageProblems, loadCheckpoint } from './fit.js'
export { type Manifest, type Position, printManifest } from './manifest.js'
export { parseSafetensors, printSafetensors, type SafeTensor } from './safetensors.js'
export { type Shard, shardsOf } from './shards.js'
export {
  type Captured,
  captureParts,
  type Heading,
  type PartsOfRank,
  printCheckpoint,
  printParts,
  type Snapshot,
  writtenParts,
} from './write.js'
