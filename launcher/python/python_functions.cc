#include "launcher/python/python_functions.h"

#include <cstring>
#include <utility>

#include "launcher/job/build.h"

namespace nb = nanobind;

namespace trireme {
namespace {

nb::tuple pair_of(const nb::object& result, const char* what, const char* members) {
  TRIREME_CHECK(nb::isinstance<nb::tuple>(result) && nb::len(result) == 2, "{} must return a tuple, ({})",
                what, members);
  return nb::cast<nb::tuple>(result);
}

HostArray array_of(nb::handle object, const char* what) {
  HostArray array;
  TRIREME_CHECK(nb::try_cast(object, array, false), "{} must be a contiguous array in host memory", what);
  return array;
}

template <class T>
void copy_to(std::vector<T>& out, const HostArray& array) {
  out.resize(array.nbytes() / sizeof(T));
  std::memcpy(out.data(), array.data(), array.nbytes());
}

HostBatch batch_of(const nb::object& result, const SampleSpec& spec, std::int64_t count) {
  const nb::tuple pair = pair_of(result, "a data set's read function", "inputs, targets");
  const HostArray inputs = array_of(pair[0], "inputs"), targets = array_of(pair[1], "targets");
  check_array(inputs, spec.input, spec.input_dtype, "inputs");
  check_array(targets, spec.target, spec.target_dtype, "targets");
  HostBatch batch{.input_shape = spec.input.batched(count),
                  .target_shape = spec.target.batched(count),
                  .input_dtype = spec.input_dtype,
                  .target_dtype = spec.target_dtype};
  copy_to(batch.inputs, inputs);
  if (spec.target_dtype == DType::kInt32) copy_to(batch.targets, targets);
  if (spec.target_dtype == DType::kFloat32) copy_to(batch.number_targets, targets);
  return batch;
}

}  // namespace

std::shared_ptr<const Dataset> python_dataset(const JobConfig& config, std::int64_t num_samples,
                                              nb::object read) {
  const SampleSpec spec = sample_spec(config);
  check_plain(spec);
  return std::make_shared<CallbackDataset>(CallbackDataset::Options{
      .num_samples = num_samples,
      .seed = static_cast<std::uint64_t>(config.train.seed),
      .sample = spec,
      .read = [spec, model = config.model,
               function = shared(std::move(read))](std::span<const std::int64_t> indices) {
        HostBatch batch;
        {
          const nb::gil_scoped_acquire lock;
          try {
            nb::list list;
            for (const std::int64_t index : indices) list.append(index);
            batch = batch_of((*function)(list), spec, std::ssize(indices));
          } catch (const nb::python_error& error) {
            throw from_python(error, "data set");
          }
        }
        const void* const targets = spec.target_dtype == DType::kInt32
                                        ? static_cast<const void*>(batch.targets.data())
                                        : static_cast<const void*>(batch.number_targets.data());
        check_samples(spec, model,
                      {.inputs = batch.inputs.data(), .targets = targets, .count = std::ssize(indices)});
        return batch;
      }});
}

LossFunction python_loss(nb::object function) {
  return [function = shared(std::move(function))](const Tensor& logits, const Tensor& targets,
                                                  const Tensor& gradient) {
    const nb::gil_scoped_acquire lock;
    try {
      const nb::object result = (*function)(new_array(logits), new_array(targets));
      const nb::tuple pair = pair_of(result, "a loss", "loss, gradient");
      const HostArray array = array_of(pair[1], "the gradient of a loss");
      TRIREME_CHECK(
          array.dtype() == nb::dtype<float>() && array.size() == static_cast<std::size_t>(logits.num_elems()),
          "the gradient of a loss must be float32 with the shape of the logits, {}, and has {} elements",
          logits.shape().to_string(), array.size());
      std::memcpy(gradient.data(), array.data(), array.nbytes());
      return nb::cast<float>(nb::float_(pair[0]));
    } catch (const nb::python_error& error) {
      throw from_python(error, "loss");
    }
  };
}

}  // namespace trireme
