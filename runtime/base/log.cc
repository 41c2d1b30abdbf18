#include "runtime/base/log.h"

#include <spdlog/spdlog.h>

namespace trireme {

void log_info(std::string_view message) {
  spdlog::info("{}", message);
}
void log_warning(std::string_view message) {
  spdlog::warn("{}", message);
}
void log_error(std::string_view message) noexcept {
  try {
    spdlog::error("{}", message);
  } catch (...) {  // a destructor may be reporting: nothing more can be done
  }
}

}  // namespace trireme
