#include "launcher/python/callback_dataset.h"

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/python/samples.h"
#include "runtime/base/error.h"
#include "runtime/data/permutation.h"

namespace trireme {

CallbackDataset::CallbackDataset(Options options) : options_(std::move(options)) {
  TRIREME_CHECK(options_.num_samples > 0, "the data set has {} samples: its __len__ must return 1 or more",
                options_.num_samples);
}

std::int64_t CallbackDataset::targets_per_sample() const {
  return trireme::targets_per_sample(options_.sample);
}

HostBatch CallbackDataset::read_train(std::int64_t first, std::int64_t count) const {
  std::vector<std::int64_t> indices;
  std::optional<Permutation> order;
  for (std::int64_t sample = first; sample < first + count; ++sample) {
    const auto epoch = static_cast<std::uint32_t>(sample / num_samples());
    if (!order || order->epoch() != epoch) order.emplace(num_samples(), options_.seed, epoch);
    indices.push_back((*order)(sample % num_samples()));
  }
  return options_.read(indices);
}

HostBatch CallbackDataset::read_sequential(std::int64_t first, std::int64_t count) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  return options_.read(indices);
}

}  // namespace trireme
