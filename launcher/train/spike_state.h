// What SpikeWatch goes by, as a checkpoint keeps it.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>

namespace trireme {

/// The last values of a loss or a gradient norm, oldest first.
struct SpikeSeries {
  std::deque<double> values;
  bool is_high = false;  // the last one

  bool operator==(const SpikeSeries&) const = default;
};

struct SpikeState {
  SpikeSeries loss, grad_norm;
  std::int64_t calm_from = 0;  // the first step that may be rolled back again
  int left_out_in_a_row = 0;

  bool operator==(const SpikeState&) const = default;
};

/// Numbers come back as they were.
nlohmann::json to_json(const SpikeState& state);
SpikeState spike_state_of(const nlohmann::json& json);

}  // namespace trireme
