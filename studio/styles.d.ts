/** Styles are files that the bundler takes along. */
declare module '*.css'

/** Pages of the documentation, as text. */
declare module '*?raw' {
  const text: string
  export default text
}
