/** Python as statements: words with the line each begins on, and how far it is indented. Nothing is executed. */

export interface Word {
  readonly kind: 'name' | 'number' | 'string' | 'sign'
  readonly text: string
}

export interface Statement {
  readonly line: number
  readonly indent: number
  readonly words: readonly Word[]
}

const pattern =
  /(?<space>[ \t\f]+|\\\r?\n)|(?<comment>#[^\n]*)|(?<newline>\r?\n)|(?<string>[rRbBuUfF]{0,2}(?:"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))|(?<number>\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?|\.\d+)|(?<name>[\p{L}_][\p{L}\p{N}_]*)|(?<sign>\*\*|\/\/|->|[<>=!+\-*/%&|^]=|[\s\S])/guy

export function statementsOf(text: string): readonly Statement[] {
  const found: Statement[] = []
  let words: Word[] = []
  let [line, began, depth, column] = [1, 1, 0, 0]
  const end = () => {
    if (words.length > 0) found.push({ line: began, indent: column, words })
    words = []
    column = 0
  }
  for (const { 0: all, groups = {} } of text.matchAll(pattern)) {
    if (groups.newline !== undefined && depth === 0) end()
    else if (groups.space !== undefined && words.length === 0) column = all.startsWith('\\') ? column : all.length
    const kind = (['name', 'number', 'string', 'sign'] as const).find(one => groups[one] !== undefined)
    if (kind) {
      if (words.length === 0) began = line
      if (kind === 'sign') depth = Math.max(0, depth + ('([{'.includes(all) ? 1 : ')]}'.includes(all) ? -1 : 0))
      words.push({ kind, text: kind === 'string' ? unquoted(all) : all })
    }
    line += all.split('\n').length - 1
  }
  end()
  return found
}

const unquoted = (text: string): string => {
  const bare = text.replace(/^[rRbBuUfF]+/, '')
  const quotes = /^("""|''')/.test(bare) ? 3 : 1
  return bare.slice(quotes, -quotes)
}
