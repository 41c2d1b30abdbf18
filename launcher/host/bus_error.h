// Handles SIGBUS: a memory-mapped file (token data, a checkpoint) shrank, or its disk failed, during a read.
#pragma once

namespace trireme {

/// Installs the handler. From then on such an access ends the process with a message and exit code 1, instead
/// of the system's "Bus error".
void report_bus_errors();

}  // namespace trireme
