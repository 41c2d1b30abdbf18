#include "launcher/state/spike_state.h"

#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

using SortedJson = nlohmann::json;

SortedJson to_json(const SpikeSeries& series) {
  return {{"values", series.values}, {"is_high", series.is_high}};
}

SpikeSeries series_of(const SortedJson& json) {
  return {.values = json.at("values").get<std::deque<double>>(), .is_high = json.at("is_high").get<bool>()};
}

}  // namespace

SortedJson to_json(const SpikeState& state) {
  return {{"loss", to_json(state.loss)},
          {"grad_norm", to_json(state.grad_norm)},
          {"calm_from", state.calm_from},
          {"left_out_in_a_row", state.left_out_in_a_row}};
}

SpikeState spike_state_of(const SortedJson& json) {
  return {.loss = series_of(json.at("loss")),
          .grad_norm = series_of(json.at("grad_norm")),
          .calm_from = read_integer<std::int64_t>(json, "calm_from"),
          .left_out_in_a_row = read_integer<int>(json, "left_out_in_a_row")};
}

}  // namespace trireme
