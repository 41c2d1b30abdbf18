#include "launcher/host/error_report.h"

#include <cstdio>

namespace trireme {

void report_error(std::string_view message, int rank) noexcept {
  const int length = static_cast<int>(message.size());
  if (rank >= 0) {
    std::fprintf(stderr, "trireme: error: rank %d: %.*s\n", rank, length, message.data());
  } else {
    std::fprintf(stderr, "trireme: error: %.*s\n", length, message.data());
  }
  std::fflush(stderr);
}

}  // namespace trireme
