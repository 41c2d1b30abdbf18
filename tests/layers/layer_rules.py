#!/usr/bin/env python3
"""Checks the rules of the tree that no compiler checks: who may include whom, where certain calls may stand, and that
documentation names what exists.

    tests/layers/layer_rules.py [ROOT]

Prints one line per violation, "file:line: rule: what to do", and exits 1 when there is one. Warnings do not count.
"""

import pathlib
import re
import sys

FOLDERS = ("runtime", "kernels", "parallel", "models", "launcher", "tests", "examples")
SCRIPT_FOLDERS = FOLDERS + ("third_party", ".ci")
LIBRARY_LAYERS = ("base", "kernels", "runtime", "parallel", "models")

# Layer -> the layers whose headers it may include, beside its own. "backend" is kernels/backend.h with the headers of
# its arguments (backend_*.h), all of the kernels that the layers above may see. A model reaches kernels through ops only.
MAY_INCLUDE = {
    "base": set(),
    "kernels": {"base", "backend"},
    "runtime": {"base", "backend"},
    "parallel": {"base", "backend", "runtime"},
    "models": {"base", "runtime"},
    "launcher": {"base", "backend", "runtime", "parallel", "models"},
    "examples": {"base", "backend", "runtime", "parallel", "models"},
}

# The rooms of a layer in their order: a room may include itself and the rooms before it. A file of no room comes last.
ROOMS = {
    "parallel": ("comm", "mesh", "watch", "layout", "plan", "reduce", "run", "cluster", "foresee", "cost"),
    "launcher": ("config", "render", "records", "data", "host", "families", "observe", "keys", "page", "state", "job",
                 "partner", "cluster", "report", "supervise", "train", "commands", "python"),
}

# Vendor header -> the only folders that may include it. Tests mirror the tree; benchmarks measure the vendor too.
VENDOR_HEADERS = (
    (re.compile(r"^mpi\.h$"), ("parallel/comm",)),
    (re.compile(r"^nccl[^/]*\.h$"), ("parallel/comm",)),
    (re.compile(r"^(oneapi/dnnl/|dnnl)"), ("kernels/cpu",)),
    (re.compile(r"^(cublas|cudnn|cutlass|cub/|nvtx)"), ("kernels/cuda",)),
    (re.compile(r"^microhttpd\.h$"), ("launcher/observe",)),
    (re.compile(r"^nanobind/"), ("launcher/python",)),
    (re.compile(r"^(cuda[^/]*\.h|cuda/.*)$"), ("kernels/cuda", "parallel/comm")),
)

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
ENVIRONMENT = re.compile(r"\b(secure_)?getenv\s*\(|\b(set|unset|put)env\s*\(")
# Writes to standard output. isatty(STDOUT_FILENO) is none, nor is fmt::print() with stderr on the same line.
STANDARD_OUTPUT = re.compile(r"(?<!isatty\()\b(stdout|STDOUT_FILENO)\b|\bcout\b|\b(printf|puts|putchar|println)\s*\(|"
                             r"\bfmt::v?print(ln)?\s*\(\s*(?!stderr)")
EXIT = re.compile(r"\b(quick_|_)?exit\s*\(")
VAGUE_STEMS = {"utils", "util", "common", "misc", "helpers", "helper"}
MARKDOWN_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
# Paths that exist on somebody's machine only.
MACHINE_PATH = re.compile(r"(?<![\w.}])/(work|home|root|Users)/\w")
LONG_FILE_LINES = 400
# Documentation is read in terminals and diffs. The change log is left alone.
LONG_LINE = 120
# Sources as documentation names them: a file by the end of its path; a folder, or a file without its suffix, from the
# root or from the document's folder.
NAMED_FILE = re.compile(r"`([\w./-]+\.(?:h|cc|cu|cuh|py|sh|cmake|in))`")
NAMED_STEM = re.compile(rf"`((?:{'|'.join(SCRIPT_FOLDERS[:-1])})/[\w/]+)`")
# Tests as commands in documentation and scripts name them, and as CMake makes them.
TEST_EXAMPLE = re.compile(r"tests/run\.sh -R (\w+)")
TEST_NAME = re.compile(r"\b(?:trireme_test\(|add_test\(NAME )\s*(\w+)")


def layer_of(path):
    """The layer a repository path belongs to, None for tests and unknown folders."""
    if re.fullmatch(r"kernels/backend(_\w+)?\.h", path):
        return "backend"
    if path.startswith("runtime/base/"):
        return "base"
    top = path.split("/", 1)[0]
    return top if top in MAY_INCLUDE else None


def room_of(path):
    """The room that a repository path belongs to; None for a file of no room."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else None


def check_rooms(path, header):
    """Yields (rule, advice) for an #include between rooms of one layer."""
    top = path.split("/", 1)[0]
    rooms = ROOMS.get(top)
    if rooms is None or not header.startswith(top + "/"):
        return
    own, other = room_of(path), room_of(header)
    for room in (own, other):
        if room is not None and room not in rooms:
            yield "room", f"{top}/{room} has no place in the order of rooms: add it to ROOMS"
            return
    if own is not None and (other is None or rooms.index(other) > rooms.index(own)):
        yield "room", f'{top}/{own} may not include "{header}"; it may include the rooms before it: ' + \
            (", ".join(rooms[:rooms.index(own)]) or "none")


def without_comments(text):
    """Blanks comments and the inside of string literals, keeping line numbers and #include lines."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|^\s*#\s*include[^\n]*|"(?:\\.|[^"\\\n])*"', re.S | re.M)

    def blank(match):
        found = match.group(0)
        if found.lstrip().startswith("#"):
            return re.sub(r"//[^\n]*", "", found)
        if found.startswith('"'):
            return '""'
        return "\n" * found.count("\n")

    return token.sub(blank, text)


def allowed_folder(path, folders):
    mirrored = path[len("tests/"):] if path.startswith("tests/") else path
    return any(mirrored.startswith(folder + "/") for folder in folders) or path.startswith("tests/bench/")


def check_include(root, path, quote, header):
    """Yields (rule, advice) for one #include."""
    for pattern, folders in VENDOR_HEADERS:
        if pattern.match(header) and not allowed_folder(path, folders):
            yield "vendor-header", f"<{header}> may only be included below {', '.join(folders)}"
    if quote == "<":
        if header.split("/", 1)[0] in FOLDERS and (root / header).exists():
            yield "include-quotes", f'our own headers are included with quotes: "{header}"'
        return
    if not (root / header).is_file() and not (root / (header + ".in")).is_file():
        yield "include-root", f'"{header}" is not a path from the repository root; write the whole path'
        return
    own, other = layer_of(path), layer_of(header)
    if own == "backend":
        own = "kernels"
    if other == "backend" and own == "kernels":
        return
    if own is not None and other != own and other not in MAY_INCLUDE[own]:
        allowed = ", ".join(sorted(MAY_INCLUDE[own])) or "nothing else"
        yield "layer", f'{own} may not include "{header}" ({other or "tests"}); it may include: {allowed}'
    yield from check_rooms(path, header)
    for one, two in (("cpu", "cuda"), ("cuda", "cpu")):
        if path.startswith(f"kernels/{one}/") and header.startswith(f"kernels/{two}/"):
            yield "layer", f'the {one} backend may not include the {two} backend ("{header}")'


def check_source(root, path, text):
    """Yields (line number, rule, advice) for one C++ or CUDA file."""
    if path.endswith((".h", ".cuh")):
        if not re.search(r"^#pragma once$", text, re.M):
            yield 1, "pragma-once", "every header says #pragma once"
        if not text.startswith("//"):
            yield 1, "header-purpose", "a header begins with a comment that says what it is for"
    for number, line in enumerate(text.split("\n"), 1):
        if not line.isascii():
            yield number, "ascii", "sources are plain ASCII"
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        include = INCLUDE.match(line)
        if include:
            for rule, advice in check_include(root, path, *include.groups()):
                yield number, rule, advice
        if ENVIRONMENT.search(line) and not path.startswith(("launcher/host/env.", "tests/")):
            yield number, "environment", "the environment is read in launcher/host/env only; pass the value along"
        if STANDARD_OUTPUT.search(line) and path.startswith("launcher/") and \
                path != "launcher/host/standard_output.cc":
            yield number, "standard-output", "print with launcher/host/standard_output.h, which escapes control characters"
        if EXIT.search(line) and layer_of(path) in LIBRARY_LAYERS + ("backend",):
            yield number, "no-exit", "a library throws Error and never exits"


def check_any(root, path, text):
    """Yields (line number, rule, advice) for any text file of ours."""
    if pathlib.PurePosixPath(path).stem.lower() in VAGUE_STEMS:
        yield 1, "vague-name", "name the file for the one concept it holds"
    for number, line in enumerate(text.split("\n"), 1):
        if MACHINE_PATH.search(line):
            yield number, "machine-path", "this path exists on one machine only"
        for target in MARKDOWN_LINK.findall(line) if path.endswith(".md") else ():
            if "://" not in target and not (root / path).parent.joinpath(target).exists():
                yield number, "dead-link", f"{target} does not exist"


def check_documentation(root, path, text, names):
    """Yields (line number, rule, advice) for one Markdown file; `names` are the ends of all paths."""
    if path == "CHANGELOG.md":
        return
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LONG_LINE:
            yield number, "long-line", f"{len(line)} characters; documentation has at most {LONG_LINE} a line"
        for named in NAMED_FILE.findall(line):
            if named not in names:
                yield number, "dead-name", f"no file is called {named}"
        for named in NAMED_STEM.findall(line):
            candidates = [folder / named for folder in (root, (root / path).parent)]
            if not any(c.exists() or any(c.parent.glob(c.name + ".*")) for c in candidates):
                yield number, "dead-name", f"there is no {named}"


def check_test_examples(texts):
    """Yields "file:line: rule: advice" for commands that run a test which no CMakeLists.txt makes."""
    names = {name for path, text in texts.items() if path.endswith("CMakeLists.txt") for name in TEST_NAME.findall(text)}
    for path, text in texts.items():
        for number, line in enumerate(text.split("\n"), 1):
            for wanted in TEST_EXAMPLE.findall(line):
                if not any(wanted in name for name in names):
                    yield f"{path}:{number}: dead-test: no test's name contains {wanted}"


def files_of(root, folders, suffixes):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and (path.suffix in suffixes or path.name == "CMakeLists.txt"):
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
    for path in sorted(root.glob("*.md")):
        yield path.name, path.read_text(encoding="utf-8")


def check_tree(root):
    """Returns (violations, warnings): lists of "file:line: rule: advice"."""
    root = pathlib.Path(root)
    violations, warnings, num_sources, texts = [], [], 0, {}
    suffixes = {".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".cmake", ".toml", ".md", ".in"}
    for path, text in files_of(root, SCRIPT_FOLDERS, suffixes):
        texts[path] = text
    names = {"/".join(path.split("/")[i:]) for path in texts for i in range(path.count("/") + 1)}
    for path, text in texts.items():
        found = list(check_any(root, path, text))
        if path.endswith(".md"):
            found += check_documentation(root, path, text, names)
        if path.endswith((".h", ".cc", ".cu", ".cuh")):
            num_sources += 1
            found += check_source(root, path, text)
            num_lines = text.count("\n")
            if num_lines > LONG_FILE_LINES:
                warnings.append(f"{path}:{num_lines}: long-file: more than {LONG_FILE_LINES} lines; "
                                "does it hold one concept?")
        violations += [f"{path}:{number}: {rule}: {advice}" for number, rule, advice in found]
    violations += check_test_examples(texts)
    if num_sources == 0:
        violations.append(f"{root}:0: empty-tree: no sources found; is this the repository root?")
    return violations, warnings


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]
    violations, warnings = check_tree(root)
    for line in warnings:
        print("warning:", line)
    for line in violations:
        print(line)
    print(f"{len(violations)} violations, {len(warnings)} warnings")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
