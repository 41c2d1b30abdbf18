"""Bits of a running rank's state, found by the values that its newest checkpoint has, and changed in place.

Needs the Python standard library only, and the right to write to the process: it is a descendant, or this is root.
"""
import json
import os
import signal
import struct

WINDOW = 64  # bytes around an element: 16 neighbours in fp32 tell it from all else


def read_tensors(path):
    """name -> bytes of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    body = data[8 + length:]
    return {name: body[slice(*entry["data_offsets"])] for name, entry in header.items() if name != "__metadata__"}


def writable_memory(pid):
    """(first, size) of private memory without a file."""
    with open(f"/proc/{pid}/maps") as maps:
        for line in maps:
            fields = line.split()
            first, end = (int(part, 16) for part in fields[0].split("-"))
            if fields[1].startswith("rw-p") and (len(fields) == 5 or fields[5] == "[heap]"):
                yield first, end - first


def places_of(memory, pid, needle):
    for first, size in writable_memory(pid):
        try:
            memory.seek(first)
            block = memory.read(size)
        except OSError:
            continue
        at = block.find(needle)
        while at >= 0:
            yield first + at
            at = block.find(needle, at + 1)


def change_element(pid, file, numbers, change):
    """Stops the process, replaces one element of a checkpoint's file by `change` of its four bytes wherever the process's
    memory contains it, and continues it. False if the memory no longer contains the file's values."""
    os.kill(pid, signal.SIGSTOP)
    try:
        tensors = read_tensors(file)
        name = numbers.choice(sorted(name for name, values in tensors.items() if len(values) >= WINDOW))
        values = tensors[name]
        first = numbers.randrange(0, len(values) - WINDOW + 4, 4)
        needle = values[first:first + WINDOW]
        if len(set(needle[at:at + 4] for at in range(0, WINDOW, 4))) < WINDOW // 8:
            return False  # a norm's ones, a bias's zeros: not to be told from others
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            places = list(places_of(memory, pid, needle))
            for place in places:
                memory.seek(place)
                memory.write(change(needle[:4]))
        return bool(places)
    except FileNotFoundError:
        return False  # an older checkpoint that is gone
    finally:
        os.kill(pid, signal.SIGCONT)
