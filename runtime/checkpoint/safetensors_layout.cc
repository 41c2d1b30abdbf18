#include "runtime/checkpoint/safetensors_layout.h"

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme {

static_assert(std::endian::native == std::endian::little, "data is written as it is in memory");

SafetensorsLayout::SafetensorsLayout(const std::filesystem::path& path,
                                     const std::vector<SafetensorsEntry>& tensors,
                                     const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kSafetensorsMetadataKey)] = metadata;
  std::set<std::string_view> names;
  std::uint64_t data_bytes = 0;
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
    begins_.push_back(data_bytes);
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
  const std::uint64_t length = text.size();
  head_.resize(sizeof length);
  std::memcpy(head_.data(), &length, sizeof length);
  head_ += text;
  for (std::uint64_t& begin : begins_) begin += head_.size();
  size_bytes_ = head_.size() + data_bytes;
}

}  // namespace trireme
