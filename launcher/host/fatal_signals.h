// Handles signals that end the process: SIGBUS, because a memory-mapped file (token data, a checkpoint)
// shrank or its disk failed during a read; SIGSEGV, SIGABRT, SIGFPE and SIGILL, because the program has a
// defect.
//
// [Note: stacks of crashes] Open MPI 4.1 prints a stack, too, but its handler allocates memory. It may never
// return in a process that got the signal inside of malloc: the rank then neither computes nor ends.
// `report_fatal_signals` therefore prints stacks itself, and MpiSession removes Open MPI's handlers.
#pragma once

namespace trireme {

/// Installs the handlers. After SIGBUS the process ends with a message and exit code 1. After another of
/// these signals it prints the stack of one thread and ends by the signal, or after 30 s with exit code 128 +
/// the signal if the stack cannot be printed. Signals that have a handler (of a sanitizer, say) keep it. A
/// stack that is full and a thread that blocks the signal end the process without a word.
void report_fatal_signals();

}  // namespace trireme
