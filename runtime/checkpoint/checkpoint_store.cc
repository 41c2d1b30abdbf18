#include "runtime/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <system_error>
#include <tuple>

#include "runtime/base/disk_failure.h"
#include "runtime/base/error.h"
#include "runtime/base/file_writer.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/log.h"
#include "runtime/base/private_folder.h"
#include "runtime/checkpoint/checkpoint_name.h"
#include "runtime/checkpoint/writer_mark.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Kind = CheckpointName::Kind;

struct Entry {
  CheckpointName name;
  fs::path path;
};

/// The checkpoint folders in `root`: highest step first, and for one step the final one first.
std::vector<Entry> list_entries(const fs::path& root) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator file(root, error), end; !error && file != end; file.increment(error)) {
    if (auto name = parse_checkpoint_name(file->path().filename().string()))
      entries.push_back({std::move(*name), file->path()});
  }
  // A problem with the parent folder is reported when that folder is created.
  const bool absent = error == std::errc::no_such_file_or_directory || !fs::is_directory(root.parent_path());
  TRIREME_CHECK(!error || absent, "cannot list checkpoint folder {}: {}", root.string(), error.message());
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tuple(-a.name.step, a.name.kind, a.path) < std::tuple(-b.name.step, b.name.kind, b.path);
  });
  return entries;
}

/// True if nothing in it has changed for an hour: its writer, on any host, has stopped.
bool is_abandoned(const fs::path& folder) {
  std::error_code error;
  auto newest = fs::last_write_time(folder, error);
  if (error) return false;
  for (fs::directory_iterator file(folder, error), end; !error && file != end; file.increment(error)) {
    std::error_code ignored;
    const auto time = fs::last_write_time(file->path(), ignored);
    if (!ignored) newest = std::max(newest, time);
  }
  return fs::file_time_type::clock::now() - newest > std::chrono::hours(1);
}

bool is_remains(const Entry& entry) {
  if (entry.name.kind == Kind::kFinal) return false;
  const WriterState state = writer_state(entry.name.mark);
  return state == WriterState::kDead || (state == WriterState::kUnknown && is_abandoned(entry.path));
}

/// Calls `visit` for complete checkpoints, highest step first, one per step, until it returns false.
void visit_whole(const fs::path& root, Verify verify, const std::function<bool(Checkpoint)>& visit) {
  std::int64_t last_step = -1;
  for (const Entry& entry : list_entries(root)) {
    if (entry.name.kind == Kind::kTemporary && is_remains(entry))
      log_warning(
          fmt::format("ignoring checkpoint {}: its writer died before it was whole", entry.path.string()));
    if (entry.name.kind != Kind::kFinal && entry.name.kind != Kind::kReplaced) continue;
    if (entry.name.step == last_step) continue;
    Checkpoint checkpoint;
    try {
      check_is_within({.folder = root, .name = entry.path.filename().string(), .what = "checkpoint"});
      checkpoint = open_checkpoint(entry.path, verify);
      TRIREME_CHECK(checkpoint.manifest.step == entry.name.step, "its manifest is of step {}",
                    checkpoint.manifest.step);
    } catch (const Error& error) {
      log_warning(fmt::format("ignoring damaged checkpoint {}: {}", entry.path.string(), error.what()));
      continue;
    }
    last_step = entry.name.step;
    if (!visit(std::move(checkpoint))) return;
  }
}

void remove_or_warn(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) log_warning(fmt::format("cannot remove {}: {}", folder.string(), error.message()));
}

}  // namespace

Checkpoint open_checkpoint(const fs::path& folder, Verify verify) {
  TRIREME_CHECK(fs::is_directory(folder), "checkpoint {} is not a folder", folder.string());
  Checkpoint checkpoint{.folder = folder, .manifest = read_manifest(folder)};
  verify_files(checkpoint.manifest, folder, verify);
  return checkpoint;
}

fs::path CheckpointStore::folder_of(std::int64_t step) const {
  return root_ / CheckpointName{.kind = Kind::kFinal, .step = step, .mark = {}}.to_string();
}

PendingCheckpoint CheckpointStore::begin(std::int64_t step) {
  TRIREME_CHECK(step >= 0, "a checkpoint of step {} was requested", step);
  // Others may have laid out something since the job began.
  check_folder_to_write(root_.parent_path());
  check_folder_to_write(root_);
  std::error_code error;
  fs::create_directories(root_, error);
  if (error)
    throw Error(code_of_file_failure(error.value()), "cannot make checkpoint folder {}: {}", root_.string(),
                error.message())
        .about({.file = root_.string(), .system_error = error.value()});
  clear_remains();
  return PendingCheckpoint(root_, step);
}

void CheckpointStore::clear_remains() {
  for (const Entry& entry : list_entries(root_)) {
    if (!is_remains(entry)) continue;
    const fs::path target = folder_of(entry.name.step);
    if (entry.name.kind == Kind::kReplaced && !fs::exists(target)) {
      // The writer died between two renames: restore the old checkpoint.
      std::error_code error;
      fs::rename(entry.path, target, error);
      TRIREME_CHECK(!error, "cannot rename {} to {}: {}", entry.path.string(), target.string(),
                    error.message());
      log_warning(fmt::format("restored checkpoint {}, whose replacement was interrupted", target.string()));
    } else {
      log_warning(fmt::format("removing {}, left by a writer that died", entry.path.string()));
      remove_or_warn(entry.path);
    }
  }
}

bool CheckpointStore::holds_any() const {
  return std::ranges::any_of(list_entries(root_),
                             [](const Entry& entry) { return entry.name.kind == Kind::kFinal; });
}

std::optional<Checkpoint> CheckpointStore::latest(Verify verify) const {
  std::optional<Checkpoint> found;
  visit_whole(root_, verify, [&](Checkpoint checkpoint) {
    found = std::move(checkpoint);
    return false;
  });
  return found;
}

std::vector<Checkpoint> CheckpointStore::list(Verify verify) const {
  std::vector<Checkpoint> all;
  visit_whole(root_, verify, [&](Checkpoint checkpoint) {
    all.push_back(std::move(checkpoint));
    return true;
  });
  return all;
}

void CheckpointStore::prune(std::int64_t keep, Verify verify) {
  TRIREME_CHECK(keep >= 1, "at least one checkpoint must be kept, not {}", keep);
  const std::vector<Checkpoint> all = list(verify);
  for (std::size_t i = static_cast<std::size_t>(keep); i < all.size(); ++i) {
    // Renamed before removal: a kill half-way must not leave a folder that looks like a damaged checkpoint.
    const CheckpointName hidden{.kind = Kind::kRemoved, .step = all[i].manifest.step, .mark = writer_mark()};
    const fs::path removed = root_ / hidden.to_string();
    std::error_code error;
    fs::rename(all[i].folder, removed, error);
    if (error) {
      log_warning(fmt::format("cannot remove checkpoint {}: {}", all[i].folder.string(), error.message()));
      continue;
    }
    remove_or_warn(removed);
  }
}

}  // namespace trireme
