#include "runtime/checkpoint/safetensors_header.h"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/nesting.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxDims = 64;

/// SAX handler that keeps only the declarations. A tree of a header of the format's maximum of 100 MB could
/// take gigabytes. nlohmann's callback, which could find repeated names, visits all earlier ones at the end
/// of each.
class HeaderReader final : public json::json_sax_t {
 public:
  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { return other_scalar(); }
  bool boolean(bool) override { return other_scalar(); }
  bool number_integer(number_integer_t) override { return other_scalar(); }
  bool number_float(number_float_t, const string_t&) override { return other_scalar(); }
  bool binary(binary_t&) override { return other_scalar(); }

  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ != 3 || !in_list_) return other_scalar();
    std::vector<std::uint64_t>& list = part_ == Part::kShape ? *shape_ : *offsets_;
    TRIREME_CHECK(list.size() < kMaxDims, "tensor {} has a list of more than {} numbers", name_, kMaxDims);
    list.push_back(value);
    return true;
  }

  bool string(string_t& text) override {
    if (depth_ == 2 && is_metadata_) {
      header_.metadata[key_] = text;
    } else if (depth_ == 2 && part_ == Part::kDtype) {
      dtype_ = text;
    } else {
      return other_scalar();
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ > 0) begin_value(/*is_object=*/true);
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1 && !is_metadata_) end_tensor();
    return true;
  }
  bool start_array(std::size_t) override {
    TRIREME_CHECK(depth_ > 0, "its header is not a JSON object");
    begin_value(/*is_object=*/false);
    ++depth_;
    return true;
  }
  bool end_array() override {
    if (--depth_ == 2) in_list_ = false;
    return true;
  }

  bool key(string_t& text) override {
    if (depth_ == 1) begin_member(text);
    if (depth_ == 2) begin_part(text);
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    throw Error(ErrorCode::kInvalidInput, "its header is not JSON ({:.200})", error.what());
  }

 private:
  enum class Part : std::uint8_t { kDtype, kShape, kOffsets, kOther };

  void begin_member(const std::string& name) {
    TRIREME_CHECK(names_.insert(name).second, "its header has \"{}\" twice", name);
    name_ = name;
    is_metadata_ = name == kSafetensorsMetadataKey;
    dtype_.reset(), shape_.reset(), offsets_.reset();
  }

  void begin_part(const std::string& name) {
    key_ = name;
    part_ = name == "dtype"          ? Part::kDtype
            : name == "shape"        ? Part::kShape
            : name == "data_offsets" ? Part::kOffsets
                                     : Part::kOther;
  }

  /// Called at the start of an object or a list.
  void begin_value(bool is_object) {
    if (depth_ == 1 && !is_object) fail_member();
    if (depth_ == 2 && is_metadata_) fail_part();
    if (depth_ == 2 && part_ != Part::kOther) {
      if (is_object || part_ == Part::kDtype) fail_part();
      (part_ == Part::kShape ? shape_ : offsets_).emplace();
      in_list_ = true;
    } else if (depth_ == 3 && in_list_) {
      fail_part();
    }
  }

  /// A value of a type that no part of the header has.
  bool other_scalar() {
    TRIREME_CHECK(depth_ > 0, "its header is not a JSON object");
    if (depth_ == 1) fail_member();
    const bool is_part = depth_ == 2 && (is_metadata_ || part_ != Part::kOther);
    if (is_part || (depth_ == 3 && in_list_)) fail_part();
    return true;
  }

  void end_tensor() {
    const auto require = [this](bool given, const char* part) {
      TRIREME_CHECK(given, "tensor {} has no {}", name_, part);
    };
    require(dtype_.has_value(), "dtype");
    require(shape_.has_value(), "shape");
    require(offsets_.has_value(), "data_offsets");
    if (offsets_->size() != 2) part_ = Part::kOffsets, fail_part();
    SafetensorsHeader::Tensor tensor;
    tensor.name = name_;
    tensor.dtype = *dtype_;
    tensor.shape.assign(shape_->begin(), shape_->end());
    tensor.begin = (*offsets_)[0], tensor.end = (*offsets_)[1];
    header_.tensors.push_back(std::move(tensor));
  }

  [[noreturn]] void fail(const std::string& what) const { throw Error(ErrorCode::kInvalidInput, what); }
  [[noreturn]] void fail_member() const {
    if (is_metadata_) fail(fmt::format("{} is not a map of strings", name_));
    fail(fmt::format("tensor {} has no dtype", name_));
  }
  [[noreturn]] void fail_part() const {
    if (is_metadata_) fail(fmt::format("{} \"{}\" is not a string", name_, key_));
    if (part_ == Part::kDtype) fail(fmt::format("the dtype of tensor {} is not a string", name_));
    if (part_ == Part::kShape) fail(fmt::format("the shape of tensor {} is not a list of sizes", name_));
    fail(fmt::format("the data_offsets of tensor {} are not two offsets", name_));
  }

  SafetensorsHeader header_;
  std::unordered_set<std::string> names_;
  int depth_ = 0;  // nesting: 1 names, 2 their parts, 3 numbers of a list
  std::string name_, key_;
  bool is_metadata_ = false, in_list_ = false;
  Part part_ = Part::kOther;
  std::optional<std::string> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_, offsets_;
};

}  // namespace

std::optional<std::uint64_t> safetensors_dtype_bytes(std::string_view dtype) {
  struct Dtype {
    std::string_view name;
    std::uint64_t bytes;
  };
  static constexpr Dtype kDtypes[] = {
      {"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
      {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
      {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1},
  };
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> safetensors_data_bytes(const SafetensorsEntry& entry) {
  const auto elem_bytes = safetensors_dtype_bytes(entry.dtype);
  if (!elem_bytes) return std::nullopt;
  std::uint64_t bytes = *elem_bytes;
  for (const std::int64_t extent : entry.shape) {
    if (extent < 0) return std::nullopt;
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return std::nullopt;
  }
  return bytes;
}

SafetensorsHeader parse_safetensors_header(std::string_view text) {
  const int nesting = json_nesting(text);
  TRIREME_CHECK(nesting <= kMaxNesting, "its header is nested {} levels deep, and {} are the limit", nesting,
                kMaxNesting);
  HeaderReader reader;
  json::sax_parse(text, &reader);
  return reader.take();
}

}  // namespace trireme
