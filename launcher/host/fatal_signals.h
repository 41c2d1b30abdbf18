// Handles signals that end the process: SIGBUS, because a memory-mapped file (token data, a checkpoint)
// shrank or its disk failed during a read; SIGSEGV, SIGABRT, SIGFPE and SIGILL, because the program has a
// defect.
//
// [Note: stacks of crashes] Open MPI 4.1 prints a stack, too, but its handler allocates memory. It never
// returns in a process that crashed inside of malloc: the rank then neither computes nor ends.
// `report_fatal_signals` therefore prints stacks itself, and MpiSession restores the handlers that were there
// before MPI.
#pragma once

namespace trireme {

/// Installs the handlers. After SIGBUS the process ends with a message and exit code 1; after another of
/// these signals it prints its stack and ends by the signal. Signals that have a handler (of a sanitizer,
/// say) keep it.
void report_fatal_signals();

}  // namespace trireme
