#include "runtime/base/log.h"

#include <spdlog/spdlog.h>

#include "runtime/base/terminal_text.h"

namespace trireme {

void log_info(std::string_view message) {
  spdlog::info("{}", terminal_line(message));
}
void log_warning(std::string_view message) {
  spdlog::warn("{}", terminal_line(message));
}
void log_error(std::string_view message) noexcept {
  try {
    spdlog::error("{}", terminal_line(message));
  } catch (...) {  // possibly called from a destructor: nothing more can be done
  }
}

}  // namespace trireme
