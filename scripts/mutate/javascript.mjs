/** Mutants of compiled JavaScript: changes of one expression or statement, each as a range of the text and what takes its place. */
import { parseAst } from 'rolldown/parseAst'

const swapped = {
  ...{ '<': '<=', '<=': '<', '>': '>=', '>=': '>', '===': '!==', '!==': '===', '==': '!=', '!=': '==' },
  ...{ '+': '-', '-': '+', '*': '/', '/': '*', '%': '*', '**': '*', '<<': '>>', '>>': '<<', '&': '|', '|': '&' },
  ...{ '&&': '||', '||': '&&', '??': '&&', '+=': '-=', '-=': '+=', '*=': '/=', '/=': '*=', '++': '--', '--': '++' },
}
/** Calls of these can be left out: what they are called on is of the same type. */
const dropped = new Set(['filter', 'reverse', 'toReversed', 'sort', 'toSorted', 'slice', 'trim'])

const isObject = value => typeof value === 'object' && value !== null

function* nodesOf(node, parent) {
  if (typeof node.type === 'string') yield [node, parent]
  for (const [key, child] of Object.entries(node))
    if (key !== 'parent' && isObject(child))
      for (const each of Array.isArray(child) ? child : [child])
        if (isObject(each)) yield* nodesOf(each, typeof node.type === 'string' ? node : parent)
}

/** The operator between (or before, or after) the operands. */
function operatorAt(text, { operator, start, end }, from = start, to = end) {
  const at = text.indexOf(operator, from)
  return at >= 0 && at < to ? [at, at + operator.length] : undefined
}

function ofOperator(text, node) {
  const other = swapped[node.operator]
  if (!other) return []
  const between = node.left ? [node.left.end, node.right.start] : [node.start, node.end]
  const range = operatorAt(text, node, ...between)
  return range ? [{ kind: 'operator', range, by: other }] : []
}

const ofTest = (text, { test }) =>
  test
    ? [{ kind: 'negated condition', range: [test.start, test.end], by: `!(${text.slice(test.start, test.end)})` }]
    : []

function ofCall(text, { callee, arguments: args, start, end }) {
  const made = []
  if (args.length > 1 && args.every(({ type }) => type !== 'SpreadElement')) {
    const [a, b] = args.map(({ start, end }) => text.slice(start, end))
    const [first, second] = args
    const by = `${b}${text.slice(first.end, second.start)}${a}`
    if (a !== b) made.push({ kind: 'swapped arguments', range: [first.start, second.end], by })
  }
  if (callee.type === 'MemberExpression' && dropped.has(callee.property.name))
    made.push({ kind: 'dropped call', range: [start, end], by: text.slice(callee.object.start, callee.object.end) })
  return made
}

function ofLiteral({ value, start, end }, parent) {
  if (parent?.type === 'Property' && parent.key.start === start) return []
  const range = [start, end]
  if (typeof value === 'boolean') return [{ kind: 'boolean', range, by: String(!value) }]
  if (typeof value !== 'number') return []
  return [value + 1, value - 1].map(by => ({ kind: 'constant', range, by: by < 0 ? `(${by})` : String(by) }))
}

/** All mutants of one kind of node. */
const makers = {
  BinaryExpression: ofOperator,
  LogicalExpression: ofOperator,
  AssignmentExpression: ofOperator,
  UpdateExpression: ofOperator,
  IfStatement: ofTest,
  ConditionalExpression: ofTest,
  WhileStatement: ofTest,
  CallExpression: ofCall,
  Literal: (_, node, parent) => ofLiteral(node, parent),
  UnaryExpression: (text, { operator, argument, start, end }) =>
    operator === '!' || operator === '-'
      ? [{ kind: 'dropped operator', range: [start, end], by: `(${text.slice(argument.start, argument.end)})` }]
      : [],
  ExpressionStatement: (_, { expression, start, end }) =>
    expression.type === 'Literal' ? [] : [{ kind: 'dropped statement', range: [start, end], by: ';' }],
  MemberExpression: (text, { computed, property }) =>
    computed && property.type !== 'Literal'
      ? [
          {
            kind: 'index',
            range: [property.start, property.end],
            by: `(${text.slice(property.start, property.end)}) + 1`,
          },
        ]
      : [],
  ArrayExpression: (text, { elements, start, end }) =>
    elements.length > 1
      ? [{ kind: 'dropped element', range: [start, end], by: `${text.slice(start, elements.at(-2).end)}]` }]
      : [],
  ContinueStatement: (_, { start, end }) => [{ kind: 'dropped statement', range: [start, end], by: ';' }],
}

/** Mutants of a module, in the order of their places. */
export function mutantsOf(text) {
  const found = []
  for (const [node, parent] of nodesOf(parseAst(text)))
    for (const { kind, range, by } of makers[node.type]?.(text, node, parent) ?? []) {
      const [start, end] = range
      found.push({ kind, start, end, from: text.slice(start, end), to: by })
    }
  return found.sort((a, b) => a.start - b.start || a.to.localeCompare(b.to))
}
