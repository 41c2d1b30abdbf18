// The command line: selects the command, parses its options, and turns errors into messages and exit codes.
#pragma once

namespace trireme {

/// Runs the program and returns its exit code (exit_code.h). Does not throw.
int run_command_line(int argc, const char* const* argv) noexcept;

}  // namespace trireme
