export * from './schedule/task.js'
