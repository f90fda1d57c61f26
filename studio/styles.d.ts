/** Styles are files that the bundler takes along. */
declare module '*.css'

/** Files that are taken along as text. */
declare module '*?raw' {
  const text: string
  export default text
}
