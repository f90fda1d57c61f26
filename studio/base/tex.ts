/**
 * A formula in TeX, which the build replaces by MathML (vite.config.ts): no interpolation. `\class{live}{\text{name}}` marks a place
 * for a number that lives: `Formula` of parts/formula.tsx puts it there.
 */
export function tex(_: TemplateStringsArray): string {
  throw new Error('a formula that the build did not see: write tex`…` without values in it')
}
