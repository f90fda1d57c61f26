export * from './compile.js'
export * from './job.js'
export * from './schedule/index.js'
