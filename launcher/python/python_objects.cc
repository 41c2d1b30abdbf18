#include "launcher/python/python_objects.h"

#include <nanobind/stl/string.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "launcher/config/field_keys.h"

namespace nb = nanobind;

namespace trireme {
namespace {

bool has_dtype(const HostArray& array, DType dtype) {
  return dtype == DType::kInt32 ? array.dtype() == nb::dtype<std::int32_t>()
                                : array.dtype() == nb::dtype<float>();
}

std::vector<std::int64_t> dims_of(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape.dim(i));
  return dims;
}

template <class T>
nb::object copy_of(const T* values, const std::vector<std::int64_t>& shape) {
  std::vector<std::size_t> dims(shape.begin(), shape.end());
  const std::size_t count = std::accumulate(dims.begin(), dims.end(), std::size_t{1}, std::multiplies<>());
  auto memory = std::make_unique<T[]>(count);
  std::memcpy(memory.get(), values, count * sizeof(T));
  T* const data = memory.release();
  const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(data, dims.size(), dims.data(), owner));
}

}  // namespace

SharedObject shared(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* held) {
            const nb::gil_scoped_acquire lock;
            delete held;
          }};
}

void set_python_error(const Error& error) {
  const ErrorFacts& facts = error.facts();
  nb::dict fields;
  fields["code"] = std::string(name(error.code())).c_str();
  const auto add_text = [&](const char* field, const std::string& text) {
    if (!text.empty()) fields[field] = text.c_str();
  };
  const auto add_number = [&](const char* field, int number) {
    if (number >= 0) fields[field] = number;
  };
  add_text("field", facts.field);
  add_text("key", facts.field.empty() ? "" : with_keys(facts.field));
  add_text("value", facts.value);
  add_text("file", facts.file);
  add_text("host", facts.host);
  add_number("rank", facts.rank);
  add_text("action", facts.action);
  add_text("block", facts.block);
  add_number("micro_batch", facts.micro_batch);
  add_text("tensor", facts.tensor);
  add_text("remedy", facts.remedy);
  const nb::object type = nb::module_::import_("trireme._errors").attr("Error");
  const nb::object instance = type(nb::str(with_keys(error.what()).c_str()), **fields);
  PyErr_SetObject(type.ptr(), instance.ptr());
}

Error from_python(const nb::python_error& error, const std::string& where) {
  const std::string type = nb::cast<std::string>(error.type().attr("__name__"));
  const std::string text = nb::cast<std::string>(nb::str(error.value()));
  return {ErrorCode::kRuntime, fmt::format("{}: {}: {}", where, type, text)};
}

void check_array(const HostArray& array, const Shape& sample, DType dtype, const char* what) {
  std::vector<std::int64_t> shape;
  for (std::size_t i = 0; i < array.ndim(); ++i) shape.push_back(static_cast<std::int64_t>(array.shape(i)));
  const std::vector<std::int64_t> wanted = dims_of(sample);
  const bool fits =
      !shape.empty() && std::equal(shape.begin() + 1, shape.end(), wanted.begin(), wanted.end());
  TRIREME_CHECK(fits, "{} have the shape [{}], and the job's samples need [B{}{}]", what,
                fmt::join(shape, ", "), wanted.empty() ? "" : ", ", fmt::join(wanted, ", "));
  TRIREME_CHECK(has_dtype(array, dtype), "{} must be {}", what, numpy_name(dtype));
}

nb::object new_array(const float* values, const std::vector<std::int64_t>& shape) {
  return copy_of(values, shape);
}

nb::object new_array(const Tensor& tensor) {
  const std::vector<std::int64_t> shape = dims_of(tensor.shape());
  if (tensor.dtype() == DType::kInt32) return copy_of(static_cast<const std::int32_t*>(tensor.data()), shape);
  return copy_of(static_cast<const float*>(tensor.data()), shape);
}

const char* numpy_name(DType dtype) {
  return dtype == DType::kInt32 ? "int32" : "float32";
}

}  // namespace trireme
