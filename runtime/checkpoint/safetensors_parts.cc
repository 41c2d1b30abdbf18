#include "runtime/checkpoint/safetensors_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/file_writer.h"
#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/hash.h"

namespace trireme {
namespace {

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  throw Error(ErrorCode::kRuntime, "cannot {} {}: {}{}", action, path.string(), std::strerror(error_number),
              full ? "; free space there or write to another disk" : "")
      .about({.file = path.string(), .system_error = error_number});
}

/// Sum of the hashes of those blocks of bytes [begin, end) of a file that start in [first, last). Blocks are
/// counted from `begin`.
std::uint64_t hash_of_range(std::span<const std::byte> file, std::uint64_t begin, std::uint64_t end,
                            std::uint64_t first, std::uint64_t last) {
  const auto block_from = [&](std::uint64_t at) {
    return at <= begin ? 0 : (at - begin + kHashBlockBytes - 1) / kHashBlockBytes;
  };
  const std::uint64_t block = block_from(first);
  const std::uint64_t from = begin + block * kHashBlockBytes;
  const std::uint64_t to = std::min(end, begin + block_from(last) * kHashBlockBytes);
  if (from >= to) return 0;
  return hash_part(file.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)), block);
}

}  // namespace

void make_safetensors(const std::filesystem::path& path, const SafetensorsLayout& layout) {
  FileWriter file(path, FileWriter::Mode::kCreateNew);
  file.append(std::as_bytes(std::span(layout.head())));
  file.close();
  if (::truncate(path.c_str(), static_cast<off_t>(layout.size_bytes())) != 0) fail("write", path, errno);
}

FilePart::FilePart(std::filesystem::path path)
    : path_(std::move(path)), fd_(::open(path_.c_str(), O_WRONLY | O_CLOEXEC)) {
  if (fd_ < 0) fail("open", path_, errno);
}

FilePart::~FilePart() {
  if (fd_ >= 0) ::close(fd_);
}

void FilePart::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("write", path_, errno);
    }
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void FilePart::sync() {
  // EINVAL: the file system does not support sync here.
  if (::fsync(fd_) != 0 && errno != EINVAL) fail("sync", path_, errno);
}

std::vector<std::uint64_t> hash_share(const std::filesystem::path& path, const SafetensorsLayout& layout,
                                      FileShare share) {
  constexpr std::uint64_t kRun = 64 * kHashBlockBytes;  // stays in cache between the two hashes
  const MappedFile mapped(path, "checkpoint file");
  const std::span<const std::byte> file = mapped.bytes();
  if (file.size() != layout.size_bytes())
    throw Error(ErrorCode::kRuntime, "checkpoint file {} has {} bytes instead of {}", path.string(),
                file.size(), layout.size_bytes())
        .about({.file = path.string()});
  const std::uint64_t num_runs = (file.size() + kRun - 1) / kRun;
  const auto first_run = [&](int index) {
    return num_runs * static_cast<std::uint64_t>(index) / static_cast<std::uint64_t>(share.count);
  };
  std::vector<std::uint64_t> hashes(1 + layout.num_tensors());
  std::size_t tensor = 0;  // the first whose data ends after the run's begin
  for (std::uint64_t run = first_run(share.index); run < first_run(share.index + 1); ++run) {
    const std::uint64_t first = run * kRun, last = std::min<std::uint64_t>(first + kRun, file.size());
    hashes[0] += hash_of_range(file, 0, file.size(), first, last);
    while (tensor < layout.num_tensors() && layout.end(tensor) <= first) ++tensor;
    for (std::size_t i = tensor; i < layout.num_tensors() && layout.begin(i) < last; ++i)
      hashes[1 + i] += hash_of_range(file, layout.begin(i), layout.end(i), first, last);
  }
  return hashes;
}

CheckpointFile describe_safetensors(const std::string& name, const SafetensorsLayout& layout,
                                    const std::vector<SafetensorsEntry>& tensors,
                                    std::span<const std::uint64_t> hashes) {
  CheckpointFile file{
      .name = name, .bytes = layout.size_bytes(), .checksum = hash_of_parts(hashes[0], layout.size_bytes())};
  for (std::size_t i = 0; i < tensors.size(); ++i)
    file.tensors[tensors[i].name] = hash_of_parts(hashes[1 + i], layout.end(i) - layout.begin(i));
  return file;
}

}  // namespace trireme
