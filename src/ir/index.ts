export * from './instr.js'
export * from './program.js'
export * from './traits.js'
