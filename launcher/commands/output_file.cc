#include "launcher/commands/output_file.h"

#include <filesystem>
#include <system_error>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"

namespace trireme {

void check_is_new(const char* option, const std::string& file, bool force) {
  std::error_code error;
  TRIREME_CHECK(force || !std::filesystem::exists(std::filesystem::symlink_status(file, error)),
                "{} {}: the file is there already; name another, or replace it with --force", option, file);
}

void check_can_be_written(const char* option, const std::string& file) {
  try {
    const AtomicFile probe(file);  // removed again
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalidInput, "{} {}: {}", option, file, error.what());
  }
}

}  // namespace trireme
