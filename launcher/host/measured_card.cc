#include "launcher/host/measured_card.h"

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {

namespace {

// The output of `trireme doctor`: the whole file, or the result of the stage `rates` in probe.json of
// gpu_gate.sh.
const nlohmann::json& doctor_report(const nlohmann::json& json) {
  return json.contains("stages") ? json.at("stages").at("rates").at("result") : json;
}

}  // namespace

MeasuredCard read_measured_card(const std::filesystem::path& file) {
  const nlohmann::json whole = read_json_file(file, "file of a card");
  MeasuredCard card{.file = file.string()};
  try {
    const nlohmann::json& json = doctor_report(whole);
    const nlohmann::json& first = json.at("gpus").at("devices").at(0);
    card.name = first.at("name");
    card.memory_bytes = read_integer<std::int64_t>(first, "memory_bytes");
    card.context_bytes = read_integer<std::int64_t>(json.at("gpu_rates"), "context_bytes");
  } catch (const std::exception& e) {
    throw Error(
        ErrorCode::kInvalidInput,
        "{}: it lacks gpus.devices[0] or gpu_rates.context_bytes of a GPU: use the output of `trireme doctor "
        "--json` on a machine with a GPU, or probe.json of tests/bench/gpu_gate.sh: {}",
        card.file, e.what());
  }
  TRIREME_CHECK(card.context_bytes >= 0 && card.context_bytes < card.memory_bytes,
                "{}: gpu_rates.context_bytes = {} is not below gpus.devices[0].memory_bytes = {}", card.file,
                card.context_bytes, card.memory_bytes);
  return card;
}

}  // namespace trireme
