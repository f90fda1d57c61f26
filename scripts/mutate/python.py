"""Mutants of Python modules named on the command line, as JSON: a range of the text (in bytes) and what takes its place."""
import ast
import json
import sys

COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
COMPUTED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*"}
SPELLED = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Add: "+", ast.Sub: "-",
    ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.And: "and", ast.Or: "or",
}


def mutants(text):
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def begin(node):
        return lines[node.lineno - 1] + node.col_offset

    def end(node):
        return lines[node.end_lineno - 1] + node.end_col_offset

    def part(node):
        return text[begin(node):end(node)].decode()

    def between(left, right, op, by):
        word = SPELLED[type(op)].encode()
        at = text.find(word, end(left), begin(right))
        return [("operator", at, at + len(word), by)] if at >= 0 else []

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
            yield from between(node.left, node.right, node.op, COMPUTED[type(node.op)])
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            yield from between(node.left, node.comparators[0], node.ops[0], COMPARED[type(node.ops[0])])
        elif isinstance(node, ast.BoolOp):
            other = "or" if isinstance(node.op, ast.And) else "and"
            yield from between(node.values[0], node.values[1], node.op, other)
        elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
            yield "negated condition", begin(node.test), end(node.test), f"(not ({part(node.test)}))"
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield "boolean", begin(node), end(node), str(not node.value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            for by in (node.value + 1, node.value - 1):
                yield "constant", begin(node), end(node), f"({by})" if by < 0 else str(by)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield "dropped statement", begin(node), end(node), "pass"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            yield "dropped operator", begin(node), end(node), f"({part(node.operand)})"


def described(text):
    for kind, start, end, to in mutants(text):
        yield {"kind": kind, "start": start, "end": end, "from": text[start:end].decode(), "to": to}


print(json.dumps({path: sorted(described(open(path, "rb").read()), key=lambda m: (m["start"], m["to"])) for path in sys.argv[1:]}))
