#include "runtime/checkpoint/safetensors_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/file_format.h"
#include "runtime/checkpoint/safetensors_header.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "data is used as it is in the file");

constexpr std::uint64_t kLengthBytes = sizeof(std::uint64_t);

/// Throws the reader's error, with the file and the reason.
template <class... Args>
[[noreturn]] void fail(const MappedFile& file, fmt::format_string<Args...> what, Args&&... args) {
  if (const FileFormat format = recognise_format(file.bytes()); format != FileFormat::kUnknown) {
    throw Error(ErrorCode::kInvalidInput, "{} is no safetensors file but {}: {}", file.path().string(),
                name_of(format), advice_for(format, file.path()));
  }
  throw Error(ErrorCode::kInvalidInput, "safetensors file {} is damaged: {}", file.path().string(),
              fmt::format(what, std::forward<Args>(args)...));
}

/// Returns the header's text; `data` receives the bytes after it.
std::string_view split_file(const MappedFile& file, std::span<const std::byte>& data) {
  const auto bytes = file.bytes();
  if (bytes.size() < kLengthBytes)
    fail(file, "it has {} bytes, too few for the length of its header", bytes.size());
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  const std::uint64_t rest = bytes.size() - kLengthBytes;
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    if (recognise_format(bytes) == FileFormat::kUnknown) {
      throw Error(ErrorCode::kInvalidInput,
                  "{} is no safetensors file: its header would have {} bytes, more than the format's {}",
                  file.path().string(), header_bytes, kMaxSafetensorsHeaderBytes);
    }
    fail(file, "its header is too long");
  }
  if (header_bytes > rest)
    fail(file, "its header of {} bytes does not fit in the file of {} bytes", header_bytes, bytes.size());
  data = bytes.subspan(kLengthBytes + header_bytes);
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, header_bytes};
}

/// A tensor with its data, from its declaration, which is checked on its own.
SafetensorsTensor find_tensor(const MappedFile& file, SafetensorsHeader::Tensor&& declared,
                              std::span<const std::byte> data) {
  const auto [begin, end] = std::pair(declared.begin, declared.end);
  SafetensorsTensor tensor{std::move(declared)};
  const auto elem_bytes = safetensors_dtype_bytes(tensor.dtype);
  if (!elem_bytes) fail(file, "tensor {} has the unknown dtype \"{}\"", tensor.name, tensor.dtype);
  const auto bytes = safetensors_data_bytes(tensor);
  if (!bytes)
    fail(file, "the shape of tensor {} is too large: [{}]", tensor.name, fmt::join(tensor.shape, ","));
  if (begin > end || end > data.size())
    fail(file, "the data of tensor {}, bytes {} to {}, leads outside of the {} bytes there are", tensor.name,
         begin, end, data.size());
  if (end - begin != *bytes)
    fail(file, "tensor {} of dtype {} and shape [{}] takes {} bytes, and has {}", tensor.name, tensor.dtype,
         fmt::join(tensor.shape, ","), *bytes, end - begin);
  tensor.data = data.subspan(begin, end - begin);
  tensor.num_elems = *bytes / *elem_bytes;
  return tensor;
}

/// Checks that every byte of data belongs to exactly one tensor, as the format requires.
void check_coverage(const MappedFile& file, std::vector<SafetensorsTensor>& tensors,
                    std::span<const std::byte> data) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.data.data() != b.data.data() ? a.data.data() < b.data.data() : a.data.size() < b.data.size();
  });
  std::uint64_t covered = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const auto begin = static_cast<std::uint64_t>(tensor.data.data() - data.data());
    if (begin < covered) fail(file, "the data of tensor {} overlaps that of another", tensor.name);
    if (begin > covered) fail(file, "bytes {} to {} of the data belong to no tensor", covered, begin);
    covered = begin + tensor.data.size();
  }
  if (covered != data.size())
    fail(file, "bytes {} to {} of the data belong to no tensor", covered, data.size());
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : file_(path, "safetensors file") {
  std::span<const std::byte> data;
  const std::string_view text = split_file(file_, data);
  SafetensorsHeader header;
  try {
    header = parse_safetensors_header(text);
  } catch (const Error& error) {
    fail(file_, "{}", error.what());
  }
  for (SafetensorsHeader::Tensor& declared : header.tensors) {
    tensors_.push_back(find_tensor(file_, std::move(declared), data));
  }
  metadata_ = std::move(header.metadata);
  check_coverage(file_, tensors_, data);
  for (std::size_t i = 0; i < tensors_.size(); ++i) index_[tensors_[i].name] = i;
}

const SafetensorsTensor& SafetensorsReader::tensor(const std::string& name) const {
  const auto found = index_.find(name);
  TRIREME_CHECK(found != index_.end(), "{} has no tensor \"{}\"; it has {} others{}", path().string(), name,
                tensors_.size(), tensors_.empty() ? "" : ", the first of which is " + tensors_.front().name);
  return tensors_[found->second];
}

void SafetensorsReader::copy_floats(const std::string& name, std::uint64_t first,
                                    std::span<float> out) const {
  const SafetensorsTensor& source = tensor(name);
  TRIREME_CHECK(source.dtype == "F32", "{}: tensor {} has dtype {}, where F32 is needed", path().string(),
                name, source.dtype);
  TRIREME_CHECK(first <= source.num_elems && out.size() <= source.num_elems - first,
                "{}: tensor {} has {} elements; {} from element {} on were requested", path().string(), name,
                source.num_elems, out.size(), first);
  if (!out.empty()) std::memcpy(out.data(), source.data.data() + first * sizeof(float), out.size_bytes());
}

}  // namespace trireme
