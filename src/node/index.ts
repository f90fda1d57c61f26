/** What the library needs of Node: files and the machine. Everything else of it runs in a page too. */
export { kindOf, nodeFiles, plainly, reasonOf } from './files.js'
export { thisHost } from './host.js'
export { startWriter } from './writer.js'
