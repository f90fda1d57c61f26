export * from './config.js'
export * from './huggingface.js'
export * from './issues.js'
export * from './presets.js'
