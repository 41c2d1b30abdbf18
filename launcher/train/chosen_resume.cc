#include "launcher/train/chosen_resume.h"

#include <string>

#include "launcher/host/agreement.h"
#include "launcher/train/run_start.h"
#include "runtime/base/log.h"
#include "runtime/base/private_folder.h"

namespace trireme {
namespace {

// The newest checkpoint in the file system, checked by file sizes only; -1: none.
std::int64_t newest_step(TrainingRun& run) {
  std::int64_t step = -1;
  run_stage(run.comm(), [&] {
    if (!run.is_first()) return;
    if (const auto newest = run.store.latest(Verify::kSizes)) step = newest->manifest.step;
  });
  return run.comm().all_gather_value(step).front();
}

struct ChosenCheckpoint {
  std::string folder;  // empty: a fresh start
  std::int64_t step = 0;
};

// Throws AgreedError if the named checkpoint does not exist, or all checkpoints are damaged.
ChosenCheckpoint find_in_files(TrainingRun& run) {
  std::string folder;
  std::int64_t step = 0;
  run_stage(run.comm(), [&] {
    if (!run.is_first()) return;
    check_folder_to_write(run.out.root);  // before anything in it is read
    const auto found = find_resume(run.store, run.options.config.checkpoint.resume);
    step = found ? found->manifest.step : 0;
    if (found) folder = found->folder.string();
  });
  return {.folder = text_of_rank(run.comm(), 0, folder), .step = run.comm().all_gather_value(step).front()};
}

void check_steps(TrainingRun& run, const ChosenCheckpoint& chosen) {
  run_stage(run.comm(), [&] {
    if (!run.is_first()) return;
    TRIREME_CHECK(chosen.step <= run.num_steps(),
                  "{} is of step {}, beyond train.steps = {}: raise it, or choose another --out",
                  chosen.folder, chosen.step, run.num_steps());
    if (run.options.config.checkpoint.resume.kind == Resume::Kind::kAuto)
      return;  // it is the newest whole checkpoint
    // Whole checkpoints of later steps would be chosen by the next `auto`, and checkpoint.keep would remove
    // this run's.
    const auto newest = run.store.latest(Verify::kSizes);
    TRIREME_CHECK(
        !newest || newest->manifest.step <= chosen.step,
        "{} holds later checkpoints, up to step {}, but this run starts at step {}: choose another --out, "
        "or remove them",
        run.store.root().string(), newest->manifest.step, chosen.step);
  });
}

}  // namespace

// If the memory of hosts has a newer checkpoint, the file system's is not read.
void choose_resume(TrainingRun& run) {
  open_partner(run);
  const bool looks = run.partner && run.partner->restore;
  if (looks) {
    run.partner->files_step = newest_step(run);
    const bool may_be_used = run.partner->files_step <= run.num_steps();
    if (may_be_used && resume_from_partner(run, run.partner->files_step + 1)) return;
  }
  ChosenCheckpoint chosen;
  try {
    chosen = find_in_files(run);
  } catch (const AgreedError& error) {
    if (!resume_from_partner(run, 0)) throw;
    run.partner->files_step = -1;
    if (run.is_first()) log_warning(one_line(error));
    return;
  }
  check_steps(run, chosen);
  if (run.partner) run.partner->files_step = chosen.folder.empty() ? -1 : chosen.step;
  if (resume_from_partner(run, chosen.folder.empty() ? 0 : chosen.step + 1)) return;
  if (chosen.folder.empty()) check_nothing_is_left_behind(run);
  run.resume_folder = chosen.folder;
}

}  // namespace trireme
