export { type Checkpoint, checkpointProblems, readCheckpoint } from './checkpoint.js'
export { crc32 } from './crc32.js'
export { parseSafetensors, printSafetensors, type SafeTensor } from './safetensors.js'
