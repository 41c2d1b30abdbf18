#include "launcher/run_checkpoint.h"

#include <nlohmann/json.hpp>

#include "parallel/checkpoint_state.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json to_json(const std::optional<LossScaleState>& state) {
  if (!state) return nullptr;
  return {{"scale", state->scale},
          {"clean_steps", state->clean_steps},
          {"skipped_in_a_row", state->skipped_in_a_row},
          {"updates", state->updates}};
}

Json to_content(const RunState& state) {
  return {{"loss", state.loss},
          {"eval_loss", state.eval_loss ? Json(*state.eval_loss) : Json(nullptr)},
          {"evaluation_due", state.evaluation_due},
          {"state_hash", state.state_hash},
          {"loss_scale", to_json(state.loss_scale)},
          {"config", to_toml(state.config)},
          {"arithmetic", state.arithmetic},
          {"class_names", state.class_names},
          {"tokenizer", state.tokenizer}};
}

std::optional<LossScaleState> loss_scale_of(const Json& content) {
  const auto found = content.find("loss_scale");
  if (found == content.end() || found->is_null()) return std::nullopt;
  return LossScaleState{.scale = found->at("scale").get<float>(),
                        .clean_steps = found->at("clean_steps").get<std::int32_t>(),
                        .skipped_in_a_row = found->at("skipped_in_a_row").get<std::int32_t>(),
                        .updates = found->at("updates").get<std::int32_t>()};
}

double number_or(const Json& value, double otherwise) {
  return value.is_number() ? value.get<double>() : otherwise;
}

}  // namespace

fs::path save_checkpoint(CheckpointStore& store, const Engine& engine, const RunState& state,
                         const std::optional<fs::path>& tokenizer_model) {
  if (engine.communicator().rank() != 0) {
    save_state(engine, {});
    return {};
  }
  PendingCheckpoint pending = store.begin(engine.steps_done());
  for (CheckpointFile& file : save_state(engine, pending.folder())) pending.add_file(std::move(file));
  if (tokenizer_model) {
    std::error_code error;
    fs::copy_file(*tokenizer_model, pending.folder() / kTokenizerModelFile, error);
    if (error) {
      throw Error(ErrorCode::kRuntime, fmt::format("cannot copy {} into the checkpoint: {}",
                                                   tokenizer_model->string(), error.message()));
    }
  }
  const fs::path folder = pending.commit(to_content(state));
  if (state.config.checkpoint.keep > 0) store.prune(state.config.checkpoint.keep);
  return folder;
}

void note_evaluation(const fs::path& folder, double eval_loss) {
  Manifest manifest = read_manifest(folder);
  manifest.content["eval_loss"] = eval_loss;
  manifest.content["evaluation_due"] = false;
  write_manifest(manifest, folder);
}

std::optional<Checkpoint> find_resume(const CheckpointStore& store, const std::string& resume) {
  if (resume == "never") return std::nullopt;
  if (resume == "auto") {
    auto latest = store.latest(Verify::kChecksums);
    TRIREME_CHECK(
        latest || !store.holds_any(),
        "{} holds checkpoints, but all of them are damaged (see the warnings above): restore one, or remove "
        "them to start again from step 0",
        store.root().string());
    return latest;
  }
  try {
    return open_checkpoint_or_run(resume);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("checkpoint.resume: {}", error.what()), error.where());
  }
}

Checkpoint open_checkpoint_or_run(const fs::path& path) {
  TRIREME_CHECK(fs::is_directory(path), "there is no checkpoint {}: no such folder", path.string());
  if (fs::exists(path / Manifest::kFileName)) return open_checkpoint(path, Verify::kChecksums);
  for (const fs::path& root : {path / "checkpoints", path}) {
    if (!fs::is_directory(root)) continue;
    if (auto latest = CheckpointStore(root).latest(Verify::kChecksums)) return *latest;
  }
  throw Error(
      ErrorCode::kInvalidInput,
      fmt::format("{} is not a checkpoint, and holds none: a checkpoint is a folder step-NNNNNN with a {}",
                  path.string(), Manifest::kFileName));
}

RunState read_run_state(const Checkpoint& checkpoint) {
  const Json& content = checkpoint.manifest.content;
  try {
    RunState state{
        .step = checkpoint.manifest.step,
        .loss = number_or(content.at("loss"), 0.0),
        .evaluation_due = content.value("evaluation_due", false),
        .state_hash = content.at("state_hash").get<std::string>(),
        .loss_scale = loss_scale_of(content),
        .config = parse_written_config(content.at("config").get<std::string>(),
                                       (checkpoint.folder / Manifest::kFileName).string() + " (config)"),
        .arithmetic = content.value("arithmetic", Arithmetic()),
        .class_names = content.value("class_names", std::vector<std::string>()),
        .tokenizer = content.at("tokenizer").get<std::string>()};
    if (content.at("eval_loss").is_number()) state.eval_loss = content["eval_loss"].get<double>();
    return state;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kInvalidInput, fmt::format("{} is not the checkpoint of a training run: {}",
                                                      checkpoint.folder.string(), error.what()));
  }
}

}  // namespace trireme
