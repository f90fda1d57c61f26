export * from './figure.js'
export * from './row.js'
export * from './setup.js'
export * from './studies.js'
