#include "launcher/host/error_report.h"

#include <cstdio>
#include <string>

#include "launcher/report/field_keys.h"

namespace trireme {

void report_error(std::string_view message, int rank) noexcept {
  std::string text;
  try {
    text = with_keys(message);
    message = text;
  } catch (...) {  // no memory: as it is
  }
  const int length = static_cast<int>(message.size());
  if (rank >= 0) {
    std::fprintf(stderr, "trireme: error: rank %d: %.*s\n", rank, length, message.data());
  } else {
    std::fprintf(stderr, "trireme: error: %.*s\n", length, message.data());
  }
  std::fflush(stderr);
}

}  // namespace trireme
