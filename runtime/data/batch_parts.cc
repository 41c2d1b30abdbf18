#include "runtime/data/batch_parts.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace trireme {
namespace {

/// `shape` with another number of samples.
Shape with_samples(const Shape& shape, std::int64_t count) {
  switch (shape.rank()) {
    case 1:
      return {count};
    case 2:
      return {count, shape[1]};
    case 3:
      return {count, shape[1], shape[2]};
    case 4:
      return {count, shape[1], shape[2], shape[3]};
    default:
      throw Error(ErrorCode::kInvalidInput, "cannot join batches of shape {}", shape.to_string());
  }
}

template <class T>
void append(std::vector<T>& all, const std::vector<T>& part) {
  all.insert(all.end(), part.begin(), part.end());
}

}  // namespace

std::vector<BatchRequest> split_request(const BatchRequest& request, std::int64_t samples_per_read) {
  if (samples_per_read <= 0) return {request};
  std::vector<BatchRequest> parts;
  const std::int64_t end = request.first + request.count;
  for (std::int64_t first = request.first; first < end;) {
    const std::int64_t next = std::min((first / samples_per_read + 1) * samples_per_read, end);
    parts.push_back({.first = first, .count = next - first, .order = request.order});
    first = next;
  }
  if (parts.empty()) parts.push_back(request);
  return parts;
}

HostBatch join_batches(std::vector<HostBatch> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  std::int64_t count = 0;
  std::size_t input_bytes = 0;
  for (const HostBatch& part : parts) {
    count += part.input_shape.dim(0);
    input_bytes += part.inputs.size();
  }
  HostBatch batch;
  batch.input_shape = with_samples(parts.at(0).input_shape, count);
  batch.target_shape = with_samples(parts[0].target_shape, count);
  batch.input_dtype = parts[0].input_dtype;
  batch.target_dtype = parts[0].target_dtype;
  if (!parts[0].condition.empty()) {
    batch.condition_shape = with_samples(parts[0].condition_shape, count);
  }
  batch.inputs.reserve(input_bytes);
  for (HostBatch& part : parts) {
    append(batch.inputs, part.inputs);
    append(batch.targets, part.targets);
    append(batch.number_targets, part.number_targets);
    append(batch.target_weights, part.target_weights);
    append(batch.target_positions, part.target_positions);
    append(batch.documents.key_bounds, part.documents.key_bounds);
    append(batch.documents.positions, part.documents.positions);
    append(batch.documents.types, part.documents.types);
    append(batch.timesteps, part.timesteps);
    append(batch.condition, part.condition);
    append(batch.classes, part.classes);
    part = {};
  }
  return batch;
}

}  // namespace trireme
