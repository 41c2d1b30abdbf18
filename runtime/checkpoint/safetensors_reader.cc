#include "runtime/checkpoint/safetensors_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme {
namespace {

static_assert(std::endian::native == std::endian::little, "data is used as it is in the file");

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = sizeof(std::uint64_t);

/// Throws the reader's error: which file, and what is wrong with it.
template <class... Args>
[[noreturn]] void fail(const MappedFile& file, fmt::format_string<Args...> what, Args&&... args) {
  throw Error(ErrorCode::kInvalidInput,
              fmt::format("safetensors file {} is damaged: {}", file.path().string(),
                          fmt::format(what, std::forward<Args>(args)...)));
}

/// The header's text, and in `data` what follows it.
std::string_view split_file(const MappedFile& file, std::span<const std::byte>& data) {
  const auto bytes = file.bytes();
  if (bytes.size() < kLengthBytes)
    fail(file, "it has {} bytes, too few for the length of its header", bytes.size());
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  const std::uint64_t rest = bytes.size() - kLengthBytes;
  if (header_bytes > kMaxSafetensorsHeaderBytes)
    fail(file, "its header would have {} bytes, more than the format's {}; is it a safetensors file?",
         header_bytes, kMaxSafetensorsHeaderBytes);
  if (header_bytes > rest)
    fail(file, "its header of {} bytes does not fit in the file of {} bytes", header_bytes, bytes.size());
  data = bytes.subspan(kLengthBytes + header_bytes);
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, header_bytes};
}

json parse_header(const MappedFile& file, std::string_view text) {
  std::set<std::string> names;
  std::string repeated;
  const json::parser_callback_t find_repeated = [&](int depth, json::parse_event_t event, json& value) {
    if (depth == 1 && event == json::parse_event_t::key && !names.insert(value.get<std::string>()).second)
      repeated = value.get<std::string>();
    return true;
  };
  json header;
  try {
    header = json::parse(text, find_repeated);
  } catch (const json::exception& error) {
    fail(file, "its header is not JSON ({:.200})", error.what());
  }
  if (!header.is_object()) fail(file, "its header is not a JSON object");
  if (!repeated.empty()) fail(file, "its header has \"{}\" twice", repeated);
  return header;
}

struct Range {
  std::uint64_t begin, end;
};

bool is_unsigned_list(const json& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_number_unsigned(); });
}

/// A tensor's declaration with its place in the data, each checked on its own.
SafetensorsTensor parse_tensor(const MappedFile& file, const std::string& name, const json& value,
                               std::span<const std::byte> data) {
  const auto member = [&](const char* key) -> const json& {
    if (!value.is_object() || !value.contains(key)) fail(file, "tensor {} has no {}", name, key);
    return value.at(key);
  };
  if (!member("dtype").is_string()) fail(file, "the dtype of tensor {} is not a string", name);
  if (!is_unsigned_list(member("shape"))) fail(file, "the shape of tensor {} is not a list of sizes", name);
  const json& offsets = member("data_offsets");
  if (!is_unsigned_list(offsets) || offsets.size() != 2)
    fail(file, "the data_offsets of tensor {} are not two offsets", name);

  SafetensorsTensor tensor;
  tensor.name = name;
  tensor.dtype = value.at("dtype").get<std::string>();
  const auto elem_bytes = safetensors_dtype_bytes(tensor.dtype);
  if (!elem_bytes) fail(file, "tensor {} has the unknown dtype \"{}\"", name, tensor.dtype);
  tensor.shape = value.at("shape").get<std::vector<std::int64_t>>();
  const auto bytes = safetensors_data_bytes(tensor);
  if (!bytes) fail(file, "the shape of tensor {} is too large: {}", name, value.at("shape").dump());
  const Range range{offsets[0].get<std::uint64_t>(), offsets[1].get<std::uint64_t>()};
  if (range.begin > range.end || range.end > data.size())
    fail(file, "the data of tensor {}, bytes {} to {}, leads outside of the {} bytes there are", name,
         range.begin, range.end, data.size());
  if (range.end - range.begin != *bytes)
    fail(file, "tensor {} of dtype {} and shape {} takes {} bytes, and has {}", name, tensor.dtype,
         value.at("shape").dump(), *bytes, range.end - range.begin);
  tensor.data = data.subspan(range.begin, range.end - range.begin);
  tensor.num_elems = *bytes / *elem_bytes;
  return tensor;
}

/// The format wants every byte of data to belong to one tensor.
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
  const json header = parse_header(file_, split_file(file_, data));
  for (const auto& [name, value] : header.items()) {
    if (name != kSafetensorsMetadataKey) {
      tensors_.push_back(parse_tensor(file_, name, value, data));
      continue;
    }
    if (!value.is_object()) fail(file_, "{} is not a map of strings", name);
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail(file_, "{} \"{}\" is not a string", name, key);
      metadata_[key] = text.get<std::string>();
    }
  }
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
                "{}: tensor {} has {} elements; {} from element {} on were asked for", path().string(), name,
                source.num_elems, out.size(), first);
  if (!out.empty()) std::memcpy(out.data(), source.data.data() + first * sizeof(float), out.size_bytes());
}

}  // namespace trireme
