export * from './compile.js'
export * from './evaluate.js'
export * from './job.js'
export * from './schedule/index.js'
