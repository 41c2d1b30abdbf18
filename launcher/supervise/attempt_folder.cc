#include "launcher/supervise/attempt_folder.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "launcher/records/record_folders.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/private_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

fs::path folder_in(const fs::path& parent, const std::string& tag) {
  std::error_code error;
  if (parent.empty() || !fs::is_directory(parent, error)) return "";
  return parent / fmt::format("trireme-{}", ::geteuid()) / ("mpi-" + attempt_name(tag));
}

bool is_chosen(const std::vector<std::string>& options, std::string_view parameter) {
  return std::ranges::find(options, parameter) != options.end();
}

bool made(const fs::path& folder) {
  if (folder.empty()) return false;
  try {
    make_private_folder(folder);
    return true;
  } catch (const Error& error) {
    log_warning(fmt::format("mpirun uses its default folders: {}", error.what()));
    return false;
  }
}

}  // namespace

AttemptFolder::AttemptFolder(const std::string& tag) {
  std::error_code error;
  session_ = folder_in(fs::temp_directory_path(error), tag);
  memory_ = folder_in("/dev/shm", tag);
}

std::vector<std::string> AttemptFolder::make(const std::vector<std::string>& options) const {
  constexpr const char* kSession = "orte_tmpdir_base";
  constexpr const char* kMemory = "btl_vader_backing_directory";
  std::vector<std::string> words;
  if (!is_chosen(options, kSession) && !is_chosen(options, "orte_local_tmpdir_base") && made(session_))
    words.insert(words.end(), {"--mca", kSession, session_.string()});
  if (!is_chosen(options, kMemory) && made(memory_))
    words.insert(words.end(), {"--mca", kMemory, memory_.string()});
  return words;
}

void AttemptFolder::remove() const noexcept {
  remove_private_folder(session_);
  remove_private_folder(memory_);
}

}  // namespace trireme
