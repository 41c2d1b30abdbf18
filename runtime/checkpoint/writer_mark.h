// Names the process that writes a temporary folder, so that another can tell whether it still lives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// "<process>.<start>@<host>" of this process. The start time tells it from later processes with its number.
std::string writer_mark();
/// The same of another process of this host.
std::string writer_mark(int process);

enum class WriterState : std::uint8_t {
  kAlive,
  kDead,
  kUnknown,  // on another host, or the mark is not one
};
WriterState writer_state(std::string_view mark);

}  // namespace trireme
