// The output of `trireme doctor --roofline`: the minimum time of a job's step on a card.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/config/config.h"
#include "parallel/foresee/roofline.h"

namespace trireme {

struct RooflineReport {
  std::string job;   // "gpt: 12 layers, 768 wide; bf16; 8 samples a step, micro-batches of 8"
  std::string unit;  // "tokens" or "samples": the unit of the throughput
  double units_a_step = 0;
  Roofline roofline;

  double units_per_s(const CardRates& card) const { return units_a_step / roofline.seconds(card); }
};

/// For one rank. `config` is resolved.
RooflineReport make_roofline_report(const JobConfig& config);

std::string to_text(const RooflineReport& report);
nlohmann::ordered_json to_json(const RooflineReport& report);

/// "backward": a column of the tables, the pass of a call.
std::string_view pass_name(TimeSpent spent);

}  // namespace trireme
