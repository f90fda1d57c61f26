/** Keys as they are read: their lines, and those that stand twice. */
export class Fields {
  readonly lines = new Map<string, number>()
  readonly twice: { readonly path: string; readonly line: number }[] = []

  /** Without a prototype: a key may be called __proto__ or constructor. */
  static mapping(): Record<string, unknown> {
    return Object.create(null)
  }

  /** The later of two wins, as it does where these files come from. */
  put(made: Record<string, unknown>, path: string, key: string, line: number, read: (path: string) => unknown): void {
    const inner = path === '' ? key : `${path}.${key}`
    if (Object.hasOwn(made, key)) this.twice.push({ path: inner, line })
    this.lines.set(inner, line)
    made[key] = read(inner)
  }
}
