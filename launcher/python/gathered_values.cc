#include "launcher/python/gathered_values.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "launcher/python/computing_thread.h"
#include "runtime/context.h"

namespace trireme {
namespace {

/// `shape`: of a micro-batch's logits, whose first dim may hold the rows of all its samples.
std::vector<std::int64_t> shape_of_batch(std::int64_t batch, std::int64_t elems_per_sample,
                                         const Shape& shape) {
  std::vector<std::int64_t> dims{batch};
  std::int64_t inner = 1;
  for (int i = 1; i < shape.rank(); ++i) inner *= shape.dim(i);
  if (elems_per_sample != inner) dims.push_back(elems_per_sample / inner);
  for (int i = 1; i < shape.rank(); ++i) dims.push_back(shape.dim(i));
  return dims;
}

}  // namespace

// The maximum as integers leaves the bits.
void combine(Communicator& comm, std::span<float> values) {
  const CallerComputes restored;  // a new context changes the thread's settings
  const Context host = Context::create({DeviceType::kCpu, 0}, 1);
  const Tensor bits =
      host.from_host(values.data(), {std::ssize(values)}, DType::kInt32, MemoryCategory::kBatch);
  comm.all_reduce(bits, ReduceOp::kMax).wait();
  std::memcpy(values.data(), bits.data(), values.size_bytes());
}

void GatheredLogits::add(std::int64_t batch, std::int64_t first, std::int64_t count,
                         const Shape& of_micro_batch, std::span<const float> added) {
  const std::int64_t each = std::ssize(added) / count;
  const std::lock_guard lock(mutex_);
  if (values.empty()) {
    shape = shape_of_batch(batch, each, of_micro_batch);
    values.assign(static_cast<std::size_t>(batch * each), kMissing);
  }
  std::ranges::copy(added, values.begin() + first * each);
}

void GatheredLogits::combine(Communicator& comm) {
  std::array<std::int64_t, Shape::kMaxRank + 2> mine{};
  mine[0] = std::ssize(shape);
  std::ranges::copy(shape, mine.begin() + 1);
  const std::vector<std::int64_t> all = comm.all_gather_values(std::span<const std::int64_t>(mine));
  for (std::size_t i = 0; i < all.size(); i += mine.size()) {
    const auto dims = std::span(all).subspan(i + 1, static_cast<std::size_t>(all[i]));
    if (!dims.empty()) shape.assign(dims.begin(), dims.end());
  }
  std::size_t elems = 1;
  for (const std::int64_t dim : shape) elems *= static_cast<std::size_t>(dim);
  values.resize(elems, kMissing);
  trireme::combine(comm, values);
}

}  // namespace trireme
