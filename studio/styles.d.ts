/** Styles are files that the bundler takes along. */
declare module '*.css'
