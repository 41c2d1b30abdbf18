// The checkpoint that a run goes on from: in the file system, or in the memory of hosts (checkpoint.partner).
#pragma once

namespace trireme {

struct TrainingRun;

/// Sets the folder that the run resumes from; empty: a fresh start. Collective. Throws AgreedError where what
/// checkpoint.resume names is not there, or where there are later checkpoints than that.
void choose_resume(TrainingRun& run);

}  // namespace trireme
