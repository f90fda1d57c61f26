export { mergedWeights } from './adapters.js'
export { type ConvertedCheckpoint, convertedCheckpoint } from './convert.js'
export {
  isWeightFolder,
  type OpenOptions,
  openWeights,
  type StoredTensor,
  type WeightFolder,
} from './folder.js'
export { type MapOptions, type MappedParam, type MappedTensor, tensorsOf, type WeightMap, weightMap } from './map.js'
export { type AdapterExport, adapterFiles, exportAdapters } from './peft.js'
export { type AdapterFolder, besideWeights, isAdapterFolder, openAdapters } from './peft-read.js'
export { gathered, type Place, rangeOf, scatter } from './place.js'
export { type WeightSource, weightSource } from './source.js'
export { isModelType, type ModelType, modelTypes } from './tables.js'
export {
  type Exported,
  type ExportOptions,
  exportWeights,
  type Trained,
  targetOf as exportTarget,
  type Weights,
  writtenFloats,
} from './write.js'
