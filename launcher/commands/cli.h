// The command line: which command, its options, and errors as messages and exit codes.
#pragma once

namespace trireme {

/// Runs the program. Returns its exit code (exit_code.h); throws nothing.
int run_command_line(int argc, const char* const* argv) noexcept;

}  // namespace trireme
