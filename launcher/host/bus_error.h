// SIGBUS: a memory-mapped file (token data, a checkpoint) shrank, or its disk failed, while it was read.
#pragma once

namespace trireme {

/// From here on such an access ends the process with a message and exit code 1, in place of the system's bare
/// "Bus error".
void report_bus_errors();

}  // namespace trireme
