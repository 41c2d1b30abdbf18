// Compares a run's data with the checkpoint that it starts from, and sets the position in the data.
#pragma once

namespace trireme {

struct TrainingRun;

/// Compares the job's data with the checkpoint that the run resumes from, or that model.init_from names. Sets
/// TrainingRun::record and first_sample. Collective. Throws AgreedError for refused data.
void meet_data(TrainingRun& run);

/// Logs the differences and the position in the data. On rank 0, when a run resumes or has initial weights.
void log_data(const TrainingRun& run);

}  // namespace trireme
