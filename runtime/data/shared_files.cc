#include "runtime/data/shared_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/file_identity.h"
#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/hash.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool has_same_bytes(const fs::path& a, const fs::path& b) {
  try {
    const MappedFile first(a, "data file"), second(b, "data file");
    const auto x = first.bytes(), y = second.bytes();
    return !x.empty() && x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size()) == 0;
  } catch (const Error&) {  // the reader of the file reports the error
    return false;
  }
}

/// Key of a file: inode and device.
struct Inode {
  std::uint64_t device, inode;
  bool operator==(const Inode&) const = default;
};
struct InodeHash {
  std::size_t operator()(const Inode& key) const { return key.inode * 0x9E3779B97F4A7C15 ^ key.device; }
};

/// The files of the evaluation images, for finding them in the training data.
class PictureFiles {
 public:
  explicit PictureFiles(const ImageFiles& eval) {
    eval([&](const fs::path& file) {
      const auto identity = FileIdentity::of(file);
      if (!identity) return;
      by_inode_.emplace(Inode{identity->device, identity->inode}, files_.size());
      sizes_.emplace(identity->bytes, 0);
      files_.push_back({.path = file, .bytes = identity->bytes});
    });
  }

  /// Files of `train` that are identical by inode. Stores all file sizes for find_copies().
  SharedFiles find_same(const ImageFiles& train) {
    SharedFiles shared{.num_compared = static_cast<std::int64_t>(files_.size())};
    train([&](const fs::path& file) {
      const auto identity = FileIdentity::of(file);
      train_bytes_.push_back(identity ? identity->bytes : 0);
      if (!identity) return;
      if (const auto size = sizes_.find(identity->bytes); size != sizes_.end()) ++size->second;
      const auto found = by_inode_.find({identity->device, identity->inode});
      if (found == by_inode_.end()) return;
      if (shared.count++ == 0) shared.eval = files_[found->second].path, shared.train = file;
      by_inode_.erase(found);
    });
    return shared;
  }

  /// Files of `train` with equal bytes; call after find_same().
  SharedFiles find_copies(const ImageFiles& train, std::int64_t max_files_read) const {
    const Compared compared = choose_compared(max_files_read);
    SharedFiles shared{.is_copy = true, .num_compared = compared.count};
    if (compared.sizes.empty()) return shared;
    std::unordered_multimap<std::uint64_t, const File*> by_end;
    for (const File* file : compared.files) by_end.emplace(hash_of_end(file->path, file->bytes), file);
    std::size_t index = 0;
    train([&](const fs::path& file) {
      const std::int64_t bytes = index < train_bytes_.size() ? train_bytes_[index] : 0;
      ++index;
      if (!compared.sizes.contains(bytes)) return;
      const auto [begin, end] = by_end.equal_range(hash_of_end(file, bytes));
      for (auto found = begin; found != end;) {
        if (!has_same_bytes(found->second->path, file)) {
          ++found;
          continue;
        }
        if (shared.count++ == 0) shared.eval = found->second->path, shared.train = file;
        found = by_end.erase(found);
      }
    });
    return shared;
  }

 private:
  struct File {
    fs::path path;
    std::int64_t bytes;
  };
  struct Compared {
    std::vector<const File*> files;          // with a size that occurs in training
    std::unordered_set<std::int64_t> sizes;  // of these files
    std::int64_t count = 0;                  // files of the evaluation that are covered
  };

  /// Samples files from the whole set, until comparing them would open more than `left` files.
  Compared choose_compared(std::int64_t left) const {
    Compared compared;
    const std::size_t num_files = files_.size();
    std::size_t step =
        std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(num_files) * 0.618));
    while (std::gcd(step, num_files) > 1) ++step;
    for (std::size_t i = 0; i < num_files; ++i) {
      const File& file = files_[i * step % num_files];
      const std::int64_t num_train = file.bytes > 0 ? sizes_.at(file.bytes) : 0;
      if (num_train > 0) {
        const bool is_new_size = !compared.sizes.contains(file.bytes);
        const std::int64_t reads = 1 + (is_new_size ? num_train : 0);
        if (reads > left) continue;
        left -= reads;
        compared.sizes.insert(file.bytes);
        compared.files.push_back(&file);
      }
      ++compared.count;
    }
    return compared;
  }

  /// Hash of the size and the last bytes, because files from one program begin alike.
  static std::uint64_t hash_of_end(const fs::path& path, std::int64_t bytes) {
    std::array<std::byte, kHashBlockBytes> end{};
    ByteHash hash;
    hash.update(std::as_bytes(std::span(&bytes, 1)));
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return hash.value();
    const auto begin = std::max<std::int64_t>(0, bytes - static_cast<std::int64_t>(end.size()));
    const ssize_t count = ::pread(file, end.data(), end.size(), begin);
    ::close(file);
    if (count > 0) hash.update(std::span(end).first(static_cast<std::size_t>(count)));
    return hash.value();
  }

  std::vector<File> files_;
  std::unordered_map<Inode, std::size_t, InodeHash> by_inode_;
  std::unordered_map<std::int64_t, std::int64_t> sizes_;  // size -> number of training files with it
  std::vector<std::int64_t> train_bytes_;                 // size of each training file
};

}  // namespace

std::optional<SharedFiles> find_shared_files(std::span<const fs::path> train,
                                             std::span<const fs::path> eval) {
  SharedFiles shared{.num_compared = static_cast<std::int64_t>(eval.size())};
  for (const fs::path& file : eval) {
    const auto identity = FileIdentity::of(file);
    for (const fs::path& other : train) {
      const auto of_other = FileIdentity::of(other);
      if (!identity || !of_other) continue;
      const bool is_same = identity->is_same_file(*of_other);
      if (!is_same && (identity->bytes != of_other->bytes || !has_same_bytes(file, other))) continue;
      if (shared.count++ == 0) shared.eval = file, shared.train = other, shared.is_copy = !is_same;
      break;
    }
  }
  return shared.count > 0 ? std::optional(shared) : std::nullopt;
}

std::optional<SharedFiles> find_shared_files(const ImageSource& train, const ImageSource& eval,
                                             std::int64_t max_files_read) {
  return find_shared_images([&](const auto& visit) { train.visit_files(visit); },
                            [&](const auto& visit) { eval.visit_files(visit); }, max_files_read);
}

std::optional<SharedFiles> find_shared_images(const ImageFiles& train, const ImageFiles& eval,
                                              std::int64_t max_files_read) {
  PictureFiles files(eval);
  SharedFiles shared = files.find_same(train);
  if (shared.count == 0) shared = files.find_copies(train, max_files_read);
  return shared.count > 0 ? std::optional(shared) : std::nullopt;
}

}  // namespace trireme
