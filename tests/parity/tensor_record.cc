#include "tests/parity/tensor_record.h"

#include "runtime/checkpoint/float_data.h"

namespace trireme {

void TensorRecord::add(const std::string& name, const std::string& dtype,
                       const std::vector<std::int64_t>& shape, std::span<const std::byte> bytes) {
  entries_.push_back({.name = name, .dtype = dtype, .shape = shape});
  data_.insert(data_.end(), bytes.begin(), bytes.end());
}

void TensorRecord::add(const std::string& name, const std::vector<std::int64_t>& shape,
                       const std::vector<float>& values) {
  add(name, "F32", shape, std::as_bytes(std::span(values)));
}

void TensorRecord::add(const std::string& name, const Engine& engine, const Tensor& tensor) {
  std::vector<std::int64_t> shape;
  for (int dim = 0; dim < tensor.shape().rank(); ++dim) shape.push_back(tensor.shape().dim(dim));
  add(name, shape, engine.context().to_host(tensor));
}

void TensorRecord::write(const std::filesystem::path& path) const {
  SafetensorsWriter writer(path, entries_);
  writer.append(data_);
  writer.commit();
}

std::vector<float> read_rows(const SafetensorsReader& file, const std::string& name, std::int64_t first,
                             std::int64_t count) {
  const SafetensorsTensor& tensor = file.tensor(name);
  const std::int64_t size = static_cast<std::int64_t>(tensor.num_elems) / tensor.shape[0];
  std::vector<float> rows(static_cast<std::size_t>(count * size));
  copy_as_floats(tensor, static_cast<std::uint64_t>(first * size), rows);
  return rows;
}

}  // namespace trireme
