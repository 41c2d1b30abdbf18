"""Lets another process end itself, as a bug would, from the middle of whatever it does: by exit_group(); or hang for ever.

x86-64 and Linux only. Needs the Python standard library only, and the right to trace the process: it is a descendant,
or this is root.
"""
import ctypes
import os
import platform

ATTACH, DETACH, GETREGS, SETREGS = 16, 17, 12, 13
REGISTERS = 27  # of user_regs_struct, 64 bits each
RAX, ORIG_RAX, RDI, RIP = 10, 15, 14, 16
EXIT_GROUP = 231
SYSCALL = b"\x0f\x05"
JUMP_TO_ITSELF = b"\xeb\xfe"


def address_of(code, pid, is_wanted):
    """Of the first such instruction in what the process may execute of the files that `is_wanted`; else None."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            fields = line.split()
            if len(fields) < 6 or not fields[1].startswith("r-x") or not is_wanted(fields[5]):
                continue
            first, end = (int(part, 16) for part in fields[0].split("-"))
            memory.seek(first)
            at = memory.read(end - first).find(code)
            if at >= 0:
                return first + at
    return None


def syscall_instruction(pid):
    """Its address in the process's C library."""
    address = address_of(SYSCALL, pid, lambda file: "libc" in file)
    if address is None:
        raise OSError(f"process {pid} has no C library")
    return address


def endless_loop(pid):
    """The address of an instruction that jumps to itself, in what the process may execute."""
    address = address_of(JUMP_TO_ITSELF, pid, lambda file: file.startswith("/"))
    if address is None:
        raise OSError(f"process {pid} has no instruction that jumps to itself")
    return address


def change_registers(pid, change, still=lambda: True):
    """Stops the main thread, and lets it go on with other registers; False, with its own, where not `still`."""
    if platform.machine() != "x86_64":
        raise OSError("registers are known on x86-64 only")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]

    def trace(request, data=None):
        if libc.ptrace(request, pid, None, data) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    trace(ATTACH)
    os.waitpid(pid, 0x40000000)  # __WALL
    wanted = still()
    if wanted:
        registers = (ctypes.c_uint64 * REGISTERS)()
        trace(GETREGS, registers)
        change(registers)
        registers[ORIG_RAX] = ctypes.c_uint64(-1).value  # no system call is to be restarted
        trace(SETREGS, registers)
    trace(DETACH)
    return wanted


def exit_process(pid, code):
    """Ends the process with this exit code, without a word of it."""
    address = syscall_instruction(pid)

    def change(registers):
        registers[RAX], registers[RDI], registers[RIP] = EXIT_GROUP, code, address

    change_registers(pid, change)


def hang_process(pid, still):
    """Puts its main thread into an endless loop. Returns False, and lets the thread continue unchanged, if `still` is
    false once it was stopped."""
    address = endless_loop(pid)

    def change(registers):
        registers[RIP] = address

    return change_registers(pid, change, still)
