import type { Program } from '../ir/index.js'
import type { Run } from './run.js'
export const readme = (_program: Program, _run: Run): string => ''
