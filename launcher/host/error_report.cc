#include "launcher/host/error_report.h"

#include <cstdio>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "launcher/config/field_keys.h"
#include "runtime/base/lines_error.h"

namespace trireme {

void report_error(const std::exception& error, int rank) noexcept {
  std::string text;
  const char* message = error.what();
  try {
    text = with_keys(shown_message(error));
    message = text.c_str();
  } catch (...) {  // no memory: keep it as it is
  }
  if (rank >= 0) {
    std::fprintf(stderr, "trireme: error: rank %d: %s\n", rank, message);
  } else {
    std::fprintf(stderr, "trireme: error: %s\n", message);
  }
  std::fflush(stderr);
}

namespace {

Error of_path(const std::filesystem::filesystem_error& error) {
  const std::errc condition{error.code().default_error_condition().value()};
  const bool is_input =
      condition == std::errc::filename_too_long || condition == std::errc::too_many_symbolic_link_levels ||
      condition == std::errc::not_a_directory || condition == std::errc::no_such_file_or_directory ||
      condition == std::errc::permission_denied || condition == std::errc::read_only_file_system;
  std::string paths = error.path1().string();
  if (!error.path2().empty()) paths += " and " + error.path2().string();
  return Error(is_input ? ErrorCode::kInvalidInput : ErrorCode::kRuntime, "cannot use {}: {}", paths,
               error.code().message())
      .about({.file = error.path1().string(), .system_error = error.code().value()});
}

}  // namespace

Error as_error(const std::exception& failure) {
  if (const auto* error = dynamic_cast<const Error*>(&failure)) return *error;
  if (const auto* error = dynamic_cast<const std::filesystem::filesystem_error*>(&failure))
    return of_path(*error);
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr)
    return {ErrorCode::kOutOfMemory, "the host is out of memory"};
  return {ErrorCode::kRuntime, failure.what()};
}

}  // namespace trireme
