#include "runtime/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "runtime/base/error.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "data is written as it is in memory");

/// The header as text, padded with spaces so that the data begins at a multiple of 8 bytes.
std::string make_header(const std::filesystem::path& path, const std::vector<SafetensorsEntry>& tensors,
                        const std::map<std::string, std::string>& metadata, std::uint64_t& data_bytes) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kSafetensorsMetadataKey)] = metadata;
  std::set<std::string_view> names;
  for (const SafetensorsEntry& tensor : tensors) {
    TRIREME_CHECK(tensor.name != kSafetensorsMetadataKey && names.insert(tensor.name).second,
                  "{}: the tensor name \"{}\" is used twice or reserved", path.string(), tensor.name);
    const auto bytes = safetensors_data_bytes(tensor);
    TRIREME_CHECK(bytes.has_value(), "{}: tensor {} has dtype {}, which the format lacks, or a bad shape",
                  path.string(), tensor.name, tensor.dtype);
    header.push_back({tensor.name,
                      {{"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"data_offsets", {data_bytes, data_bytes + *bytes}}}});
    data_bytes += *bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kInvalidInput, "{}: a tensor name or metadata is not UTF-8: {}", path.string(),
                error.what());
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  TRIREME_CHECK(text.size() <= kMaxSafetensorsHeaderBytes, "{}: a header of {} bytes exceeds the format's {}",
                path.string(), text.size(), kMaxSafetensorsHeaderBytes);
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     const std::vector<SafetensorsEntry>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  for (const SafetensorsEntry& tensor : tensors)
    declared_.push_back({tensor.name, safetensors_data_bytes(tensor).value_or(0)});
  const std::string header = make_header(path, tensors, metadata, declared_bytes_);
  const std::uint64_t header_bytes = header.size();
  write(std::as_bytes(std::span(&header_bytes, 1)));
  write(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  hash_.update(bytes);
  file_.writer().append(bytes);
}

// A tensor without elements is complete as soon as it is next.
void SafetensorsWriter::note_tensors(std::span<const std::byte> bytes) {
  while (next_ < declared_.size()) {
    const Declared& tensor = declared_[next_];
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(tensor.bytes - next_bytes_, bytes.size()));
    next_hash_.update(bytes.first(count));
    next_bytes_ += count;
    bytes = bytes.subspan(count);
    if (next_bytes_ < tensor.bytes) return;
    tensors_[tensor.name] = std::exchange(next_hash_, {}).value();
    next_bytes_ = 0;
    ++next_;
  }
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  TRIREME_CHECK(bytes.size() <= declared_bytes_ - appended_bytes_,
                "{}: {} bytes of data were declared, {} are written and {} more come", file_.path().string(),
                declared_bytes_, appended_bytes_, bytes.size());
  write(bytes);
  note_tensors(bytes);
  appended_bytes_ += bytes.size();
}

CheckpointFile SafetensorsWriter::commit() {
  TRIREME_CHECK(appended_bytes_ == declared_bytes_, "{}: {} bytes of data were declared, {} are written",
                file_.path().string(), declared_bytes_, appended_bytes_);
  note_tensors({});
  const CheckpointFile written{.name = file_.path().filename().string(),
                               .bytes = file_.writer().size_bytes(),
                               .checksum = hash_.value(),
                               .tensors = tensors_};
  file_.commit();
  return written;
}

}  // namespace trireme
