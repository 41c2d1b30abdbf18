// Objects of Python in C++: arrays, errors, and functions that ranks call from their threads.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <string>
#include <vector>

#include "parallel/layout/sample_spec.h"
#include "runtime/base/error.h"
#include "runtime/data/dataset.h"
#include "runtime/tensor.h"

namespace trireme {

/// Row-major, in host memory, never a converted copy.
using HostArray = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;

/// An object that threads without the interpreter's lock may copy and drop.
using SharedObject = std::shared_ptr<nanobind::object>;
SharedObject shared(nanobind::object object);

/// Sets the Python exception of an error: an instance of trireme.Error.
void set_python_error(const Error& error);
/// The error of an exception in a Python function: "ValueError: text". Needs the interpreter's lock.
Error from_python(const nanobind::python_error& error, const std::string& where);

/// Shape of `sample` with the batch's dim: "(8, 512)". Throws Error(kInvalidInput) for other shapes or
/// dtypes; `what` names the array.
void check_array(const HostArray& array, const Shape& sample, DType dtype, const char* what);

/// A new array of NumPy with these fp32 values, shaped `shape`.
nanobind::object new_array(const float* values, const std::vector<std::int64_t>& shape);
/// The same for a tensor in host memory, fp32 or int32.
nanobind::object new_array(const Tensor& tensor);

/// "int32", "float32": names of NumPy.
const char* numpy_name(DType dtype);

}  // namespace trireme
