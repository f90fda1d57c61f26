export { followScript } from './run.js'
export { type Given, isUnknown, type Launch, type State } from './state.js'
export { usualDevices } from './substitute.js'
export type { Remark } from './syntax.js'
