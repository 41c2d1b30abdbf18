// Identifies the process that writes a temporary folder, so that another process can check whether it is
// alive.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// "<process>.<start>@<host>" of this process. The start time distinguishes it from later processes with the
/// same number.
std::string writer_mark();
/// The mark of another process on this host.
std::string writer_mark(int process);

enum class WriterState : std::uint8_t {
  kAlive,
  kDead,
  kUnknown,  // on another host, or an invalid mark
};
WriterState writer_state(std::string_view mark);

}  // namespace trireme
