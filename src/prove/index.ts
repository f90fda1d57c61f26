export {
  type CompileOptions,
  compileModel,
  compileVerified,
  type ModelToCompile,
} from './compile-verified.js'
export * from './rehearse.js'
export * from './verdict.js'
