#include "launcher/state/run_state.h"

#include "launcher/keys/job_file.h"
#include "runtime/base/error.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

using SortedJson = nlohmann::json;

SortedJson to_json(const std::optional<LossScaleState>& state) {
  if (!state) return nullptr;
  return {{"scale", state->scale},
          {"clean_steps", state->clean_steps},
          {"skipped_in_a_row", state->skipped_in_a_row},
          {"updates", state->updates}};
}

std::optional<LossScaleState> loss_scale_of(const SortedJson& content) {
  const auto found = content.find("loss_scale");
  if (found == content.end() || found->is_null()) return std::nullopt;
  return LossScaleState{.scale = found->at("scale").get<float>(),
                        .clean_steps = read_integer<std::int32_t>(*found, "clean_steps"),
                        .skipped_in_a_row = read_integer<std::int32_t>(*found, "skipped_in_a_row"),
                        .updates = read_integer<std::int32_t>(*found, "updates")};
}

MeasuredProducts measured_of(const SortedJson& content) {
  const auto found = content.find("products");
  if (found == content.end() || found->is_null()) return {};
  return products_of(*found);
}

std::optional<SpikeState> spikes_of(const SortedJson& content) {
  const auto found = content.find("spikes");
  if (found == content.end() || found->is_null()) return std::nullopt;
  return spike_state_of(*found);
}

double number_or(const SortedJson& value, double otherwise) {
  return value.is_number() ? value.get<double>() : otherwise;
}

}  // namespace

SortedJson to_content(const RunState& state) {
  return {{"loss", state.loss},
          {"eval_loss", state.eval_loss ? SortedJson(*state.eval_loss) : SortedJson(nullptr)},
          {"evaluation_due", state.evaluation_due},
          {"state_hash", state.state_hash},
          {"loss_scale", to_json(state.loss_scale)},
          {"config", to_toml(state.config)},
          {"arithmetic", state.arithmetic},
          {"products", state.products.choices.empty() ? SortedJson(nullptr) : to_json(state.products)},
          {"class_names", state.data.class_names},
          {"tokenizer", state.data.tokenizer.kind},
          {"data", to_json(state.data)},
          {"spikes", state.spikes ? to_json(*state.spikes) : SortedJson(nullptr)},
          {"hf_extras", to_json(state.hf_extras)}};
}

RunState read_run_state(const Checkpoint& checkpoint) {
  const SortedJson& content = checkpoint.manifest.content;
  try {
    RunState state{
        .step = checkpoint.manifest.step,
        .loss = number_or(content.at("loss"), 0.0),
        .evaluation_due = content.value("evaluation_due", false),
        .state_hash = content.at("state_hash").get<std::string>(),
        .loss_scale = loss_scale_of(content),
        .config = parse_written_config(content.at("config").get<std::string>(),
                                       (checkpoint.folder / Manifest::kFileName).string() + " (config)"),
        .arithmetic = content.value("arithmetic", BitFacts()),
        .products = measured_of(content),
        .spikes = spikes_of(content),
        .hf_extras = hf_extras_of(content.value("hf_extras", SortedJson(nullptr)))};
    state.data = read_data_record(content, state.config, checkpoint.folder);
    if (!content.contains("data")) state.data.samples = state.step * state.config.train.global_batch;
    if (content.at("eval_loss").is_number()) state.eval_loss = content["eval_loss"].get<double>();
    return state;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInvalidInput, "{} is not the checkpoint of a training run: {}",
                checkpoint.folder.string(), error.what());
  }
}

}  // namespace trireme
