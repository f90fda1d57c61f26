export { archiveOf } from './archive.js'
export { type Box, copyShared, type Numbers } from './box.js'
export {
  type Checkpoint,
  type Damage,
  NotFinite,
  type ReadFile,
  readCheckpoint,
  requireFinite,
  type Share,
  sizes,
  type Target,
  wholeOf,
} from './checkpoint.js'
export { cliquesOf, partnerOf, usualJump } from './cliques.js'
export { type Copies, type KeptPart, keptParts, openCopies } from './copies.js'
export { crc32 } from './crc32.js'
export { checkpointProblems, damageProblems, loadCheckpoint } from './fit.js'
export { type Manifest, type Position, printManifest } from './manifest.js'
export {
  decodeNumbers,
  type Float,
  openSafetensors,
  parseSafetensors,
  printHead,
  printSafetensors,
  type SafeTensor,
  type Safetensors,
} from './safetensors.js'
export { type Shard, shardsOf } from './shards.js'
export { type Texts, textNames, textsIn } from './texts.js'
export {
  type Captured,
  captureParts,
  type Heading,
  type PartsOfRank,
  printCheckpoint,
  printParts,
  type Snapshot,
  type WrittenPart,
  writtenParts,
} from './write.js'
