r"""Typesets the formulas of docstrings, plain text such as `sqrt(beta) sigma_{t-1}(x)`."""

from __future__ import annotations

import re
from itertools import chain

GREEK = set(
    re.findall(
        r"\w+", "alpha beta gamma delta epsilon eta kappa lambda mu phi Phi pi rho sigma tau theta"
    )
)
FUNCTIONS = {"exp", "log", "sin", "cos", "det", "min", "max", "inf", "Var"}
LIMITS = {"argmax": r"\operatorname*{arg\,max}", "argmin": r"\operatorname*{arg\,min}"}
SYMBOLS = {"sum": r"\sum", "prod": r"\prod", "integral": r"\int"}
OPERATORS = {
    "<=>": r"\iff ",
    "...": r"\ldots ",
    "..": r"\ldots ",
    "<=": r"\le ",
    ">=": r"\ge ",
    "!=": r"\ne ",
    "->": r"\to ",
    "<-": r"\leftarrow ",
    "-/+": r"\mp ",
    "-+": r"\mp ",
    "**": "^",
    "*": r"\cdot ",
    "~": r"\sim ",
    "{": r"\{",
    "}": r"\}",
}
TOKEN = re.compile(
    r"(?P<equation>Eqs?\. \(\d+\))|(?P<gap> {2,})|(?P<space> )|(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)"
    r"|(?P<word>[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*(?![A-Za-z0-9]))"
    r"|(?P<operator><=>|\.\.\.|\.\.|<=|>=|!=|->|<-|-/\+|-\+|\*\*|[-+*/^_=<>~|,;:.'()\[\]{}])"
)
CODE = re.compile(r'"|\w=\w|[A-Z][a-z]{2,}[A-Z]\w*\(|^\w+\(.*optimizer|%|#|>>>|-or-')


WIDTH = 70  # characters that fit a column of the site


class NotAFormula(ValueError):
    r"""The text is code or a table, which stays as it is."""


def latex(block: str) -> str:
    r"""The LaTeX of some lines.

    Raises:
        NotAFormula: If a line is none.
    """
    if CODE.search(block):
        raise NotAFormula(block)
    parts = chain.from_iterable(map(_short, block.splitlines()))
    lines = [r"\qquad " * part.startswith("  ") + _line(part.strip()) for part in parts]
    if len(lines) == 1:
        return lines[0]
    return r"\begin{aligned}" + r" \\ ".join(f"& {line}" for line in lines) + r"\end{aligned}"


def _short(line: str) -> list[str]:
    r"""A line, or its parts where it is long and has a gap; later ones begin with spaces."""
    first, gap, rest = re.fullmatch(r"(\s*.*?)(?:(\s{2,})([^\s=].*))?", line).groups()
    if len(line) <= WIDTH or gap is None or not first.strip():
        return [line]
    return [first, *(f"  {part.strip()}" for part in _short(rest))]


def _tokens(line: str) -> list[tuple[str, str]]:
    found, at = [], 0
    while at < len(line):
        match = TOKEN.match(line, at)
        if match is None:
            raise NotAFormula(line)
        found.append((str(match.lastgroup), match.group()))
        at = match.end()
    return found


def _is_prose(tokens: list[tuple[str, str]], i: int) -> bool:
    r"""Whether it is a word of a sentence: no symbol, no function and not the name of one."""
    if i >= len(tokens) or tokens[i][0] != "word":
        return False
    word = tokens[i][1]
    known = word in GREEK or word in FUNCTIONS or word in LIMITS or "_" in word
    called = i + 1 < len(tokens) and tokens[i + 1][1] in ("(", "_", "^", "[")
    return not known and not called and word.isalpha() and (len(word) > 1 or word == "a")


def _ends(tokens: list[tuple[str, str]], i: int) -> bool:
    r"""Whether no factor follows, so that a star is part of a name."""
    return i >= len(tokens) or tokens[i][0] in ("space", "gap") or tokens[i][1] in ",)"


def _line(line: str) -> str:
    tokens, parts, i = _tokens(line), list[str](), 0
    while i < len(tokens):
        kind, text = tokens[i]
        if _is_prose(tokens, i):
            words = [text]
            while i + 2 < len(tokens) and tokens[i + 1][0] == "space" and _is_prose(tokens, i + 2):
                words.append(tokens[i + 2][1])
                i += 2
            parts.append(_prose(words))
        elif text in ("^", "**", "_"):
            group, i = _script(tokens, i + 1)
            parts.append(("_" if text == "_" else "^") + "{" + group + "}")
        elif text == "*" and i and tokens[i - 1][0] == "word" and _ends(tokens, i + 1):
            parts.append("^{*}")
        elif kind == "word" and text == "sqrt":
            inside, i = _parentheses(tokens, i + 1)
            parts.append(r"\sqrt{" + inside + "}")
        else:
            parts.append(_single(kind, text))
        i += 1
    return "".join(parts)


def _prose(words: list[str]) -> str:
    if words == ["in"]:
        return r" \in "
    if words in (["a"], ["e"]):
        return words[0]
    return r"\;\text{" + " ".join(words) + r"}\;" if len(words) > 1 else rf"\mathrm{{{words[0]}}}\,"


def _single(kind: str, text: str) -> str:
    if kind == "equation":
        return rf"\quad \text{{{text}}}"
    if kind == "gap":
        return r"\quad "
    if kind == "space":
        return r"\;"
    if kind == "number":
        return text.replace(",", "{,}")
    return _word(text) if kind == "word" else OPERATORS.get(text, text)


def _word(word: str) -> str:
    r"""A symbol with its index, or the name of an argument as it stands."""
    head, _, index = word.partition("_")
    indexed = not index or len(head) == 1 or len(index) == 1 or head in GREEK | {"ucb", "lcb"}
    indexed |= head in LIMITS or head in SYMBOLS or index.isdigit()
    if not indexed:
        return r"\mathrm{" + word.replace("_", r"\_") + "}"
    letters = re.fullmatch(r"([A-Za-z])(\d+)", head)
    if letters:
        return rf"{letters[1]}_{{{letters[2]}}}"
    symbol = LIMITS.get(head) or SYMBOLS.get(head)
    if symbol is None:
        known = head in GREEK or head in FUNCTIONS - {"Var"}
        symbol = f"\\{head} " if known else head if len(head) == 1 else rf"\mathrm{{{head}}}"
    if not index:
        return symbol
    return symbol + "_{" + (_word(index) if "_" not in index else index.replace("_", ", ")) + "}"


def _inside(tokens: list[tuple[str, str]], start: int, close: str) -> tuple[str, int]:
    r"""The text up to the closing bracket of the one at `start`, and where that is."""
    opening, depth = tokens[start][1], 0
    for end in range(start, len(tokens)):
        depth += {opening: 1, close: -1}.get(tokens[end][1], 0)
        if depth == 0:
            return _line("".join(text for _, text in tokens[start + 1 : end])), end
    raise NotAFormula("".join(text for _, text in tokens))


def _parentheses(tokens: list[tuple[str, str]], start: int) -> tuple[str, int]:
    if start >= len(tokens) or tokens[start][1] != "(":
        raise NotAFormula("".join(text for _, text in tokens))
    return _inside(tokens, start, ")")


def _script(tokens: list[tuple[str, str]], start: int) -> tuple[str, int]:
    r"""An index or an exponent: a bracket, or one token with its sign."""
    while start < len(tokens) and tokens[start][0] == "space":
        start += 1
    if start >= len(tokens):
        raise NotAFormula("".join(text for _, text in tokens))
    text = tokens[start][1]
    if text == "{":
        return _inside(tokens, start, "}")
    if text == "(":
        inside, end = _inside(tokens, start, ")")
        return f"({inside})", end
    if text in "+-" and start + 1 < len(tokens):
        return text + _single(*tokens[start + 1]), start + 1
    return _single(*tokens[start]), start
