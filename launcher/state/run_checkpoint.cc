#include "launcher/state/run_checkpoint.h"

#include <nlohmann/json.hpp>

#include "launcher/state/state_verification.h"
#include "parallel/run/checkpoint_state.h"
#include "parallel/watch/watchdog.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/data/tokenizer.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using SortedJson = nlohmann::json;

fs::path write_checkpoint(CheckpointStore& store, const Engine& engine, const RunState& state,
                          const std::optional<fs::path>& tokenizer_model) {
  PendingCheckpoint pending = store.begin(engine.steps_done());
  for (CheckpointFile& file : save_state(engine, pending.folder())) pending.add_file(std::move(file));
  if (tokenizer_model) copy_tokenizer(*tokenizer_model, state, pending.folder());
  check_messages_of_save(engine);
  const Watchdog::Scope watch(engine.communicator().status().get(),
                              "the syncing of " + pending.folder().string());
  return commit_checkpoint(store, pending, state);
}

}  // namespace

void check_averages(const Checkpoint& checkpoint) {
  TRIREME_CHECK(fs::exists(checkpoint.folder / kAveragesFile),
                "{} has no averages of the parameters: it is of a run without train.ema; leave out --ema",
                checkpoint.folder.string());
}

fs::path save_checkpoint(CheckpointStore& store, const Engine& engine, const RunState& state,
                         const std::optional<fs::path>& tokenizer_model) {
  fs::path folder;
  if (engine.communicator().rank() == 0) {
    folder = write_checkpoint(store, engine, state, tokenizer_model);
  } else {
    save_state(engine, {});
    check_messages_of_save(engine);
  }
  // All ranks wait for a slow file system here, not in an evaluation with a shorter limit.
  engine.communicator().barrier();
  return folder;
}

void copy_tokenizer(const fs::path& model, const RunState& state, const fs::path& folder) {
  const std::string bytes = read_checked_tokenizer(model, state.data.tokenizer);
  write_text_file(folder / tokenizer_file(state.data.tokenizer.kind), bytes);
}

fs::path commit_checkpoint(CheckpointStore& store, PendingCheckpoint& pending, const RunState& state) {
  fs::path folder = pending.commit(to_content(state));
  if (state.config.checkpoint.keep > 0) store.prune(state.config.checkpoint.keep, Verify::kSizes);
  return folder;
}

void note_evaluation(const fs::path& folder, double eval_loss) {
  Manifest manifest = read_manifest(folder);
  manifest.content["eval_loss"] = eval_loss;
  manifest.content["evaluation_due"] = false;
  write_manifest(manifest, folder);
}

std::optional<Checkpoint> find_resume(const CheckpointStore& store, const Resume& resume) {
  if (resume.kind == Resume::Kind::kNever) return std::nullopt;
  if (resume.kind == Resume::Kind::kAuto) {
    auto latest = store.latest(Verify::kChecksums);
    TRIREME_CHECK(latest || !store.holds_any(),
                  "{} holds checkpoints, but all of them are damaged (see the warnings above): restore one, "
                  "or remove them to start again from step 0",
                  store.root().string());
    return latest;
  }
  try {
    return open_checkpoint_or_run(resume.path);
  } catch (const Error& error) {
    throw error.saying(fmt::format("checkpoint.resume: {}", error.what()));
  }
}

bool holds_checkpoint(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error) &&
         (fs::exists(path / Manifest::kFileName, error) || fs::is_directory(path / "checkpoints", error));
}

Checkpoint open_checkpoint_or_run(const fs::path& path, Verify verify) {
  TRIREME_CHECK(!fs::is_regular_file(path),
                "{} is a file, and a checkpoint is a folder: name the output folder of a run, or one of its "
                "checkpoints; weights alone are for model.init_from",
                path.string());
  TRIREME_CHECK(fs::is_directory(path), "there is no checkpoint {}: no such folder", path.string());
  if (fs::exists(path / Manifest::kFileName)) return open_checkpoint(path, verify);
  for (const fs::path& root : {path / "checkpoints", path}) {
    if (!fs::is_directory(root)) continue;
    const CheckpointStore store(root);
    if (auto latest = store.latest(verify)) return *latest;
    TRIREME_CHECK(!store.holds_any(),
                  "{} holds checkpoints, but all of them are damaged (see the warnings above)",
                  root.string());
  }
  throw Error(ErrorCode::kInvalidInput,
              "{} is not a checkpoint, and holds none: a checkpoint is a folder step-NNNNNN with a {}",
              path.string(), Manifest::kFileName);
}

}  // namespace trireme
