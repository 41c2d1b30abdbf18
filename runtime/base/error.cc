#include "runtime/base/error.h"

namespace trireme {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return "invalid input";
    case ErrorCode::kOutOfMemory:
      return "out of memory";
    case ErrorCode::kCommunication:
      return "communication failed";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kRuntime:
      return "runtime failure";
  }
  return "unknown";
}

std::string describe_location(const std::source_location& where) {
  std::string_view file = where.file_name();
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return fmt::format("{}:{}", file, where.line());
}

}  // namespace trireme
