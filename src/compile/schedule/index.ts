export * from './task.js'
