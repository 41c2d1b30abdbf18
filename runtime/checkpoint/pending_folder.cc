#include "runtime/checkpoint/pending_folder.h"

#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/file_writer.h"
#include "runtime/base/log.h"
#include "runtime/base/private_folder.h"
#include "runtime/checkpoint/writer_mark.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Maps "out/" and "out" to one path; a relative path becomes absolute.
fs::path normalized(const fs::path& place) {
  return fs::absolute(place / "").lexically_normal().parent_path();
}

}  // namespace

void remove_or_log(const fs::path& folder) noexcept {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) log_error(fmt::format("cannot remove {}: {}", folder.string(), error.message()));
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error)
    throw Error(ErrorCode::kRuntime, "cannot rename {} to {}: {}", from.string(), to.string(),
                error.message())
        .about({.file = to.string(), .system_error = error.value()});
}

PendingFolder::PendingFolder(const FolderPlace& place) : place_(normalized(place.folder)) {
  check_folder_to_write(place_);
  std::error_code error;
  const bool is_free =
      !fs::exists(place_, error) || (fs::is_directory(place_, error) && fs::is_empty(place_, error));
  is_there_ = !is_free && place.on_existing == OnExisting::kReplaceFiles && fs::is_directory(place_, error);
  TRIREME_CHECK(is_free || is_there_, "{} is there already: choose another folder, or remove it",
                place_.string());
  const std::string prefix = fmt::format(".{}.tmp-", place_.filename().string());
  remove_remains(prefix);
  const fs::path temporary = place_.parent_path() / (prefix + writer_mark());
  const bool made = fs::create_directory(temporary, error);
  TRIREME_CHECK(!error, "cannot make folder {}: {}", temporary.string(), error.message());
  TRIREME_CHECK(made, "{} is already being written in {}", place_.string(), temporary.string());
  temporary_ = temporary;
}

PendingFolder::~PendingFolder() {
  if (!temporary_.empty()) remove_or_log(temporary_);
}

void PendingFolder::commit() {
  sync_folder(temporary_);
  if (is_there_) {
    for (const auto& file : fs::directory_iterator(temporary_)) {
      rename_or_throw(file.path(), place_ / file.path().filename());
    }
    sync_folder(place_);
    return;
  }
  rename_or_throw(temporary_, place_);
  temporary_.clear();
  sync_folder(place_.parent_path());
}

void PendingFolder::remove_remains(const std::string& prefix) const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(place_.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    const bool is_dead =
        name.starts_with(prefix) && writer_state(name.substr(prefix.size())) == WriterState::kDead;
    if (is_dead) remove_or_log(entry.path());
  }
}

}  // namespace trireme
