#include "launcher/host/measured_card.h"

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {

namespace {

// doctor's output: the whole file, or the result of a stage in a part of the gate.
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
        "{}: it does not have gpus.devices[0] and gpu_rates.context_bytes of a card: take what `trireme "
        "doctor --json` prints where there is one, or probe.json of tests/bench/gpu_gate.sh, whose "
        "stage `rates` has it: {}",
        card.file, e.what());
  }
  TRIREME_CHECK(card.context_bytes >= 0 && card.context_bytes < card.memory_bytes,
                "{}: gpu_rates.context_bytes = {} is no part of gpus.devices[0].memory_bytes = {}", card.file,
                card.context_bytes, card.memory_bytes);
  return card;
}

}  // namespace trireme
