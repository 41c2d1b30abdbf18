#include "launcher/partner/partner_folder.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <system_error>

#include "launcher/host/machine.h"
#include "runtime/base/allocator.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/base/folder_bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/private_folder.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/checkpoint/writer_mark.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".shard";

constexpr std::string_view kUser = "{uid}";

fs::path root_of_user(std::string root) {
  const auto at = root.find(kUser);
  return at == std::string::npos ? root : root.replace(at, kUser.size(), std::to_string(::geteuid()));
}

// Removes a file or an empty folder. A link is removed, not followed.
void remove_or_warn(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) log_warning(fmt::format("cannot remove {}: {}", path.string(), error.message()));
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; !error && file != end; file.increment(error))
    entries.push_back(file->path());
  std::ranges::sort(entries);
  return entries;
}

// Removes a file, or a folder of files such as a restored checkpoint: one level, never recursive.
void remove_with_files(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(fs::symlink_status(path, error))) {
    for (const fs::path& file : entries_of(path)) {
      if (!fs::is_directory(fs::symlink_status(file, error))) remove_or_warn(file);
    }
  }
  remove_or_warn(path);
}

bool is_unfinished(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

}  // namespace

std::string unique_mark() {
  static std::atomic<int> calls = 0;
  return fmt::format("{}-{}", writer_mark(), ++calls);
}

std::string hash_of_text(const std::string& text) {
  ByteHash hash;
  hash.update(std::as_bytes(std::span(text)));
  return fmt::format("{:016x}", hash.value());
}

PartnerFolder::PartnerFolder(fs::path root, const fs::path& out)
    : key_(root.string()),
      path_(root_of_user(root.string()) / host_name() /
            hash_of_text(fs::absolute(out / "").lexically_normal().string())) {}

void PartnerFolder::prepare() const {
  const auto refuse = [&](const std::string& reason) {
    throw Error(
        ErrorCode::kInvalidInput,
        "checkpoint.partner_folder = \"{}\": cannot write into {} on host {}: {}; choose another folder, "
        "or set checkpoint.partner = false",
        key_, path_.string(), host_name(), reason);
  };
  const fs::path probe = path_ / fmt::format(".write-test-{}", ::getpid());
  try {
    make_private_folder(path_);
    write_text_file(probe, "writable\n");
  } catch (const Error& failure) {
    refuse(failure.what());
  }
  std::error_code error;
  fs::remove(probe, error);
}

fs::path PartnerFolder::file_of(const ShardHeader& header) const {
  return path_ / fmt::format("step-{:06}.{}-of-{}.{}{}", header.step, header.rank, header.num_ranks,
                             header.save, kSuffix);
}

fs::path PartnerFolder::unfinished_file_of(const ShardHeader& header) const {
  return path_ / ("." + file_of(header).filename().string());
}

std::vector<PartnerFolder::Shard> PartnerFolder::list() const {
  std::vector<Shard> shards;
  std::error_code ignored;
  if (!fs::exists(path_, ignored)) return shards;
  try {
    check_private_folder(path_);
  } catch (const Error& error) {
    log_warning(fmt::format("ignoring {}: {}", path_.string(), error.what()));
    return shards;
  }
  for (const fs::path& path : entries_of(path_)) {
    if (is_unfinished(path) || path.extension() != kSuffix) continue;
    try {
      const ShardReader shard(path);
      shards.push_back({.path = path, .header = shard.header(), .bytes = shard.size_bytes()});
    } catch (const Error& error) {
      log_warning(fmt::format("host {}: ignoring {}", host_name(), error.what()));
    }
  }
  return shards;
}

void PartnerFolder::clear_unfinished() const {
  for (const fs::path& path : entries_of(path_)) {
    if (is_unfinished(path)) remove_with_files(path);
  }
}

void PartnerFolder::remove_those_of(const std::string& run) const {
  for (const Shard& shard : list()) {
    if (shard.header.run == run) remove_or_warn(shard.path);
  }
}

void PartnerFolder::keep_only(const std::string& save) const {
  for (const fs::path& path : entries_of(path_)) {
    const bool is_other_shard = path.extension() == kSuffix &&
                                !path.filename().string().ends_with(fmt::format(".{}{}", save, kSuffix));
    if (is_other_shard || is_unfinished(path)) remove_with_files(path);
  }
}

void PartnerFolder::remove() const {
  keep_only("");
  remove_or_warn(path_);
  std::error_code ignored;
  fs::remove(path_.parent_path(), ignored);  // only if it is empty
}

std::string PartnerFolder::describe_room() const {
  std::error_code error;
  const fs::space_info space = fs::space(path_, error);
  std::string text =
      error ? "" : fmt::format("{} are free there", format_bytes(static_cast<std::int64_t>(space.available)));
  for (const fs::path& other : entries_of(path_.parent_path())) {
    if (other == path_) continue;
    text += fmt::format("{}another run keeps {} in {}", text.empty() ? "" : "; ",
                        format_bytes(static_cast<std::int64_t>(bytes_below(other))), other.string());
  }
  return text;
}

}  // namespace trireme
