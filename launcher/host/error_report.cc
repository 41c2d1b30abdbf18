#include "launcher/host/error_report.h"

#include <cstdio>
#include <string>
#include <system_error>

#include "launcher/report/field_keys.h"
#include "runtime/base/lines_error.h"

namespace trireme {

void report_error(const std::exception& error, int rank) noexcept {
  std::string text;
  const char* message = error.what();
  try {
    text = with_keys(shown_message(error));
    message = text.c_str();
  } catch (...) {  // no memory: as it is
  }
  if (rank >= 0) {
    std::fprintf(stderr, "trireme: error: rank %d: %s\n", rank, message);
  } else {
    std::fprintf(stderr, "trireme: error: %s\n", message);
  }
  std::fflush(stderr);
}

Error as_error(const std::filesystem::filesystem_error& error) {
  const std::errc condition{error.code().default_error_condition().value()};
  const bool is_input =
      condition == std::errc::filename_too_long || condition == std::errc::too_many_symbolic_link_levels ||
      condition == std::errc::not_a_directory || condition == std::errc::no_such_file_or_directory ||
      condition == std::errc::permission_denied || condition == std::errc::read_only_file_system;
  std::string paths = error.path1().string();
  if (!error.path2().empty()) paths += " and " + error.path2().string();
  return {is_input ? ErrorCode::kInvalidInput : ErrorCode::kRuntime,
          fmt::format("cannot use {}: {}", paths, error.code().message())};
}

}  // namespace trireme
