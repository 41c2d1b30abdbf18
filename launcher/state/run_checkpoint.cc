#include "launcher/state/run_checkpoint.h"

#include "parallel/run/checkpoint_state.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/data/tokenizer.h"

namespace trireme {

namespace fs = std::filesystem;

void check_averages(const Checkpoint& checkpoint) {
  TRIREME_CHECK(fs::exists(checkpoint.folder / kAveragesFile),
                "{} has no averages of the parameters: it is of a run without train.ema; leave out --ema",
                checkpoint.folder.string());
}

void copy_tokenizer(const fs::path& model, const RunState& state, const fs::path& folder) {
  const std::string bytes = read_checked_tokenizer(model, state.data.tokenizer);
  write_text_file(folder / tokenizer_file(state.data.tokenizer.kind), bytes);
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
