export * from './rehearse.js'
export * from './verdict.js'
