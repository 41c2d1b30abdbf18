// The state of SpikeWatch in a checkpoint.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>

namespace trireme {

/// The last values of a loss or a gradient norm, oldest first.
struct SpikeSeries {
  std::deque<double> values;
  bool is_high = false;  // the last value was high

  bool operator==(const SpikeSeries&) const = default;
};

struct SpikeState {
  SpikeSeries loss, grad_norm;
  std::int64_t calm_from = 0;  // first step that may be rolled back again
  int left_out_in_a_row = 0;

  bool operator==(const SpikeState&) const = default;
};

/// Numbers are restored exactly.
nlohmann::json to_json(const SpikeState& state);
SpikeState spike_state_of(const nlohmann::json& json);

}  // namespace trireme
