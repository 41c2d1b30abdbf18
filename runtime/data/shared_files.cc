#include "runtime/data/shared_files.h"

#include <sys/stat.h>

#include <cstring>
#include <set>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "runtime/base/file_identity.h"
#include "runtime/base/mapped_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool has_same_bytes(const fs::path& a, const fs::path& b) {
  const MappedFile first(a, "data file"), second(b, "data file");
  const auto x = first.bytes(), y = second.bytes();
  return !x.empty() && x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size()) == 0;
}

/// The real folders that the files of a set are in.
std::set<fs::path> folders_of(const ImageSource& images) {
  std::set<fs::path> folders, real;
  images.visit_files([&](const fs::path& file) { folders.insert(file.parent_path()); });
  for (const fs::path& folder : folders) {
    std::error_code ignored;
    real.insert(fs::weakly_canonical(folder, ignored));
  }
  return real;
}

bool have_a_folder_in_common(const ImageSource& train, const ImageSource& eval) {
  const std::set<fs::path> of_train = folders_of(train);
  for (const fs::path& folder : folders_of(eval)) {
    if (of_train.contains(folder)) return true;
  }
  return false;
}

/// Files by inode and device.
struct Inode {
  std::uint64_t device, inode;
  bool operator==(const Inode&) const = default;
};
struct InodeHash {
  std::size_t operator()(const Inode& key) const { return key.inode * 0x9E3779B97F4A7C15 ^ key.device; }
};

}  // namespace

std::optional<SharedFiles> find_shared_files(std::span<const fs::path> train,
                                             std::span<const fs::path> eval) {
  SharedFiles shared;
  for (const fs::path& file : eval) {
    const auto identity = FileIdentity::of(file);
    for (const fs::path& other : train) {
      const auto of_other = FileIdentity::of(other);
      if (!identity || !of_other) continue;
      const bool is_same = identity->is_same_file(*of_other);
      if (!is_same && (identity->bytes != of_other->bytes || !has_same_bytes(file, other))) continue;
      if (shared.count++ == 0) shared = {.count = 1, .eval = file, .train = other, .is_copy = !is_same};
      break;
    }
  }
  return shared.count > 0 ? std::optional(shared) : std::nullopt;
}

std::optional<SharedFiles> find_shared_files(const ImageSource& train, const ImageSource& eval) {
  std::unordered_map<Inode, fs::path, InodeHash> files;
  bool has_hard_links = false;
  eval.visit_files([&](const fs::path& file) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) return;
    files.emplace(Inode{info.st_dev, info.st_ino}, file);
    has_hard_links = has_hard_links || info.st_nlink > 1;
  });
  const bool may_share =
      has_hard_links || train.has_links() || eval.has_links() || have_a_folder_in_common(train, eval);
  if (!may_share) return std::nullopt;
  SharedFiles shared;
  train.visit_files([&](const fs::path& file) {
    const auto identity = FileIdentity::of(file);
    if (!identity) return;
    const auto found = files.find({identity->device, identity->inode});
    if (found == files.end()) return;
    if (shared.count++ == 0) shared.eval = found->second, shared.train = file;
    files.erase(found);
  });
  return shared.count > 0 ? std::optional(shared) : std::nullopt;
}

}  // namespace trireme
