#include "runtime/checkpoint/pending_checkpoint.h"

#include <algorithm>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/file_writer.h"
#include "runtime/checkpoint/checkpoint_name.h"
#include "runtime/checkpoint/pending_folder.h"
#include "runtime/checkpoint/writer_mark.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

fs::path entry(const fs::path& root, CheckpointName::Kind kind, std::int64_t step) {
  const bool final = kind == CheckpointName::Kind::kFinal;
  return root / CheckpointName{.kind = kind, .step = step, .mark = final ? "" : writer_mark()}.to_string();
}

}  // namespace

PendingCheckpoint::PendingCheckpoint(fs::path root, std::int64_t step)
    : root_(std::move(root)), temporary_(entry(root_, CheckpointName::Kind::kTemporary, step)), step_(step) {
  std::error_code error;
  const bool made = fs::create_directory(temporary_, error);
  TRIREME_CHECK(!error, "cannot make checkpoint folder {}: {}", temporary_.string(), error.message());
  TRIREME_CHECK(made, "a checkpoint of step {} is already being written in {}", step, temporary_.string());
}

PendingCheckpoint::PendingCheckpoint(PendingCheckpoint&& other) noexcept
    : root_(std::move(other.root_)),
      temporary_(std::exchange(other.temporary_, {})),
      step_(other.step_),
      files_(std::move(other.files_)) {}

PendingCheckpoint::~PendingCheckpoint() {
  if (!temporary_.empty()) remove_or_log(temporary_);
}

std::vector<CheckpointFile> PendingCheckpoint::describe_files() const {
  std::vector<fs::path> paths;
  for (const auto& file : fs::directory_iterator(temporary_)) paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  for (const CheckpointFile& known : files_)
    TRIREME_CHECK(fs::exists(temporary_ / known.name), "checkpoint file {} was announced, but is not there",
                  (temporary_ / known.name).string());
  std::vector<CheckpointFile> files;
  for (const fs::path& path : paths) {
    const auto known = std::find_if(files_.begin(), files_.end(), [&](const CheckpointFile& file) {
      return file.name == path.filename().string();
    });
    if (known == files_.end()) {
      files.push_back(describe_file(path));
    } else {
      TRIREME_CHECK(fs::file_size(path) == known->bytes,
                    "checkpoint file {} has {} bytes, and its writer announced {}", path.string(),
                    fs::file_size(path), known->bytes);
      files.push_back(*known);
    }
    sync_file(path);
  }
  return files;
}

fs::path PendingCheckpoint::commit(nlohmann::json content) {
  write_manifest({.step = step_, .files = describe_files(), .content = std::move(content)}, temporary_);
  sync_folder(temporary_);

  const fs::path target = entry(root_, CheckpointName::Kind::kFinal, step_);
  const fs::path aside = entry(root_, CheckpointName::Kind::kReplaced, step_);
  const bool replaces = fs::exists(target);
  if (replaces) {
    remove_or_log(aside);  // left by an earlier commit of this process that failed to remove it
    rename_or_throw(target, aside);
  }
  try {
    rename_or_throw(temporary_, target);
  } catch (const Error&) {
    if (replaces) rename_or_throw(aside, target);
    throw;
  }
  temporary_.clear();
  sync_folder(root_);
  if (replaces) remove_or_log(aside);
  return target;
}

}  // namespace trireme
