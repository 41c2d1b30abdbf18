#include "runtime/checkpoint/safetensors_parts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/file_writer.h"
#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/safetensors_reader.h"

namespace trireme {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 18;

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  throw Error(ErrorCode::kRuntime, "cannot {} {}: {}{}", action, path.string(), std::strerror(error_number),
              full ? "; free space there or write to another disk" : "")
      .about({.file = path.string(), .system_error = error_number});
}

}  // namespace

void make_safetensors(const std::filesystem::path& path, const SafetensorsLayout& layout) {
  FileWriter file(path, FileWriter::Mode::kCreateNew);
  file.append(std::as_bytes(std::span(layout.head())));
  file.close();
  if (::truncate(path.c_str(), static_cast<off_t>(layout.size_bytes())) != 0) fail("write", path, errno);
}

SafetensorsPart::SafetensorsPart(const std::filesystem::path& path, const SafetensorsLayout& layout)
    : path_(path), layout_(layout), fd_(::open(path.c_str(), O_WRONLY | O_CLOEXEC)) {
  if (fd_ < 0) fail("open", path_, errno);
}

SafetensorsPart::~SafetensorsPart() {
  if (fd_ >= 0) ::close(fd_);
}

void SafetensorsPart::write(std::size_t tensor, std::int64_t first, std::span<const float> values) {
  auto bytes = std::as_bytes(values);
  std::uint64_t at = layout_.begin(tensor) + static_cast<std::uint64_t>(first) * sizeof(float);
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("write", path_, errno);
    }
    at += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void SafetensorsPart::sync() {
  // EINVAL: the file system does not support sync here.
  if (::fsync(fd_) != 0 && errno != EINVAL) fail("sync", path_, errno);
}

CheckpointFile describe_safetensors(const std::filesystem::path& path) {
  const MappedFile mapped(path, "checkpoint file");
  const SafetensorsReader reader(path);
  std::span<const std::byte> left = mapped.bytes();
  std::size_t data_bytes = 0;
  for (const SafetensorsTensor& tensor : reader.tensors()) data_bytes += tensor.data.size();
  ByteHash whole;
  const auto take = [&](std::size_t count, ByteHash* part) {
    while (count > 0) {  // in pieces that stay in cache between the two hashes
      const std::size_t piece = std::min(count, kPieceBytes);
      whole.update(left.first(piece));
      if (part != nullptr) part->update(left.first(piece));
      left = left.subspan(piece);
      count -= piece;
    }
  };
  take(left.size() - data_bytes, nullptr);
  CheckpointFile file{.name = path.filename().string(), .bytes = mapped.bytes().size()};
  for (const SafetensorsTensor& tensor : reader.tensors()) {
    ByteHash hash;
    take(tensor.data.size(), &hash);
    file.tensors[tensor.name] = hash.value();
  }
  file.checksum = whole.value();
  return file;
}

}  // namespace trireme
