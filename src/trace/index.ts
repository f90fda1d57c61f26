export * from './chrome.js'
export * from './share.js'
export * from './span.js'
