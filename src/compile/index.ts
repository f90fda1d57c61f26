export * from './compile.js'
export * from './schedule/index.js'
