/** Puts the suite where a test can call it. */
import * as suite from './suite.js'

Object.assign(globalThis, { suite })
