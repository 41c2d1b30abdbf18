#include "runtime/checkpoint/unused_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/checkpoint/float_data.h"
#include "runtime/checkpoint/tensor_source.h"

namespace trireme {
namespace {

constexpr std::uint64_t kPieceElems = 1 << 16;

template <class Number>
double number_in(const std::byte* at) {
  Number value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<double>(value);
}

struct IntegerFormat {
  std::string_view dtype;
  double (*number)(const std::byte* at);
};
constexpr IntegerFormat kIntegers[] = {
    {"I64", number_in<std::int64_t>}, {"I32", number_in<std::int32_t>},  {"I16", number_in<std::int16_t>},
    {"I8", number_in<std::int8_t>},   {"U8", number_in<std::uint8_t>},   {"BOOL", number_in<std::uint8_t>},
    {"F64", number_in<double>},       {"U32", number_in<std::uint32_t>}, {"U64", number_in<std::uint64_t>}};

/// Calls `visit(index, value)` for every element until it returns false. Returns false for a non-numeric
/// dtype.
template <class Visit>
bool for_each_number(const SafetensorsTensor& tensor, const Visit& visit) {
  if (is_float_data(tensor)) {
    std::vector<float> values;
    for (std::uint64_t done = 0; done < tensor.num_elems; done += values.size()) {
      values.resize(std::min(kPieceElems, tensor.num_elems - done));
      copy_as_floats(tensor, done, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!visit(done + i, static_cast<double>(values[i]))) return true;
      }
    }
    return true;
  }
  const auto format = std::ranges::find(kIntegers, tensor.dtype, &IntegerFormat::dtype);
  if (format == std::end(kIntegers)) return false;
  const std::uint64_t bytes = *safetensors_dtype_bytes(tensor.dtype);
  for (std::uint64_t i = 0; i < tensor.num_elems; ++i) {
    if (!visit(i, format->number(tensor.data.data() + i * bytes))) return true;
  }
  return true;
}

/// Relative error of rounding to the tensor's dtype.
double precision_of(const SafetensorsTensor& tensor) {
  if (tensor.dtype == "BF16") return 0x1p-8;
  return tensor.dtype == "F16" ? 0x1p-11 : 0x1p-24;
}

}  // namespace

void check_copy(const SafetensorsFolder::Found& copy, const SafetensorsFolder::Found& original,
                bool can_be_untied) {
  const SafetensorsTensor &a = *copy.tensor, &b = *original.tensor;
  const auto refuse = [&](const std::string& difference) {
    throw TensorMismatch(
        a.name,
        fmt::format("{}: tensor '{}' is not equal to '{}', which this model has in its place: {}. {} '{}'",
                    copy.file.string(), a.name, b.name, difference,
                    can_be_untied ? "Where the model was trained with both, set tie_word_embeddings "
                                    "to false in config.json; else remove"
                                  : "This build has no model with both: where it was trained with the "
                                    "second alone, remove",
                    a.name));
  };
  if (a.shape != b.shape || !is_float_data(a) || !is_float_data(b)) {
    refuse(fmt::format("{} [{}] and {} [{}]", a.dtype, fmt::join(a.shape, ", "), b.dtype,
                       fmt::join(b.shape, ", ")));
  }
  std::vector<float> left, right;
  for (std::uint64_t done = 0; done < a.num_elems; done += left.size()) {
    left.resize(std::min(kPieceElems, a.num_elems - done));
    right.resize(left.size());
    copy_as_floats(a, done, left);
    copy_as_floats(b, done, right);
    const auto [at, other] = std::ranges::mismatch(left, right);
    if (at == left.end()) continue;
    refuse(fmt::format("element {} is {} and {}", done + static_cast<std::uint64_t>(at - left.begin()), *at,
                       *other));
  }
}

void check_derived(const SafetensorsFolder::Found& stored, const HfDerived& derived) {
  const SafetensorsTensor& tensor = *stored.tensor;
  const bool is_number = for_each_number(tensor, [&](std::uint64_t index, double value) {
    if (derived.agrees(tensor.shape, index, value, precision_of(tensor))) return true;
    throw TensorMismatch(
        tensor.name, fmt::format("{}: element {} of tensor '{}' [{}] is {}, and this build computes with {}: "
                                 "the weights were trained with something else",
                                 stored.file.string(), index, tensor.name, fmt::join(tensor.shape, ", "),
                                 value, derived.meaning));
  });
  if (!is_number) {
    throw TensorMismatch(tensor.name,
                         fmt::format("{}: tensor '{}' is {}, and this build computes with {}",
                                     stored.file.string(), tensor.name, tensor.dtype, derived.meaning));
  }
}

}  // namespace trireme
