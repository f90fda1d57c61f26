import type { Run } from './run.js'
export const launchers = (_run: Run, _world: number): Record<string, string> => ({})
