// Chooses the checkpoint that a run resumes from: in the file system or in the memory of hosts
// (checkpoint.partner).
#pragma once

namespace trireme {

struct TrainingRun;

/// Sets run.resume_folder; empty: a fresh start. Collective. Throws AgreedError if the checkpoint that
/// checkpoint.resume names does not exist, or if later checkpoints exist.
void choose_resume(TrainingRun& run);

}  // namespace trireme
