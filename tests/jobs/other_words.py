"""Makes a copy of the program with changed sentences: recovery that depends on the wording of messages fails with it.

Each sentence of our sources, as a string literal, is found in the read-only data of the program, and its letters are
rotated by 13 places. Fields of formats ({:.1f}, %d) stay, and so do literals of one word: keys, names of files, options. The
last word of a sentence stays, too, because the linker may store such a literal as the end of a sentence.
"""
import re
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MPIRUNS = ROOT / "launcher/supervise/mpirun_words.cc"  # which knows mpirun's own words
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
ROTATED = {ord(first) + i: ord(first) + (i + 13) % 26 for first in "aA" for i in range(26)}
KEPT = re.compile(r"\{[^{}]*\}|%[-0-9.*]*[a-zA-Z]")


def changed(text, is_whole=False):
    """A sentence, or a part of one before its last word, as the changed program writes it."""
    kept = {i for match in KEPT.finditer(text) for i in range(*match.span())}
    if is_whole:
        kept.update(range(text.rstrip().rfind(" ") + 1, len(text)))
    return "".join(c if i in kept else c.translate(ROTATED) for i, c in enumerate(text))


def is_sentence(text):
    return " " in text.strip() and len(re.findall(r"[A-Za-z]{2,}", KEPT.sub("", text))) > 1


def sentences():
    found = set()
    for folder in ("runtime", "kernels", "parallel", "models", "launcher"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix not in (".cc", ".h") or path == MPIRUNS:
                continue
            code = re.sub(r"^\s*(?:#include|//).*$", "", path.read_text(), flags=re.M)
            for literal in LITERAL.findall(code):
                text = re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[0]), literal)
                if is_sentence(text):
                    found.add(text)
    return found


def read_only_data(program):
    """Begin and end of the section .rodata in an ELF file."""
    offset, = struct.unpack_from("<Q", program, 0x28)
    size, count, names = struct.unpack_from("<HHH", program, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", program, offset + i * size) for i in range(count)]
    for name, _, _, _, begin, length in sections:
        at = sections[names][4] + name
        if program[at:at + 8] == b".rodata\0":
            return begin, begin + length
    raise ValueError("the program has no .rodata")


def write_changed_program(source, target):
    """Returns the number of sentences that were changed."""
    program = bytearray(Path(source).read_bytes())
    begin, end = read_only_data(program)
    data = bytes(program[begin:end])
    letters, count = set(), 0  # places; texts may share their ends
    for text in sentences():
        encoded, new, at = text.encode(), changed(text, is_whole=True).encode(), data.find(text.encode())
        count += at >= 0
        while at >= 0:
            letters.update(at + i for i, (a, b) in enumerate(zip(encoded, new)) if a != b)
            at = data.find(encoded, at + 1)
    for at in letters:
        program[begin + at] = ROTATED[data[at]]
    target.write_bytes(program)
    target.chmod(0o755)
    return count
