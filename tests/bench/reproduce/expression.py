"""Arithmetic over names, such as "recompute.step_ms / plain.step_ms": what experiments compute their figures with."""
import ast
import math
import operator

_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
              ast.Pow: operator.pow}
_FUNCTIONS = {"max": max, "min": min, "abs": abs, "log2": math.log2}


class ExpressionError(ValueError):
    pass


def _dotted(node):
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise ExpressionError(f"'{ast.unparse(node)}' is no name")


def _parse(text):
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(f"'{text}' is no expression: {error.msg}") from None


def names(text):
    """The dotted names in an expression, functions left out."""
    found = set()

    def visit(node):
        if isinstance(node, (ast.Name, ast.Attribute)):
            found.add(_dotted(node))
        elif isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS:
                raise ExpressionError(f"'{ast.unparse(node.func)}' is no function here; {', '.join(_FUNCTIONS)} are")
            for argument in node.args:
                visit(argument)
        else:
            for child in ast.iter_child_nodes(node):
                visit(child)

    visit(_parse(text))
    return found


def evaluate(text, value_of):
    """`value_of(name)` gives the number of a dotted name. Throws ExpressionError for all but arithmetic."""

    def compute(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, (ast.Name, ast.Attribute)):
            return value_of(_dotted(node))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -compute(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](compute(node.left), compute(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            return _FUNCTIONS[node.func.id](*[compute(argument) for argument in node.args])
        raise ExpressionError(f"'{ast.unparse(node)}' in '{text}': only numbers, names, + - * / **, "
                              f"{', '.join(_FUNCTIONS)}")

    return compute(_parse(text))
