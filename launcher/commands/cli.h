// The command line: selects the command, parses its options, and turns errors into messages and exit codes.
#pragma once

#include "launcher/host/env.h"

namespace trireme {

/// Sends the libraries' log messages to standard error in our format. Messages that all ranks would repeat
/// are shown by rank 0 only.
void set_up_log(const LaunchEnvironment& launch);

/// Runs the program and returns its exit code (exit_code.h). Does not throw.
int run_command_line(int argc, const char* const* argv) noexcept;

}  // namespace trireme
